"""Bytes to values and back: framing, server-sent events, JSON that is still arriving, older dialects."""
