"""What things are: one declaration per shape that crosses a boundary."""
