"""Model selection, discovery of local servers, record and replay."""
