"""The session tree, messages for the provider, tokens, compaction, summaries."""
