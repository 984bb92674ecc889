"""A session's history: the append-only log, background fsync, the conversation, HTML export."""
