"""Conversion between bytes and values: line framing, server-sent events, partial JSON, protocol dialects."""
