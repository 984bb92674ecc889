"""Data types: one declaration per shape that crosses a boundary."""
