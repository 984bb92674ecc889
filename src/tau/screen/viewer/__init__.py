"""The transcript viewer: the whole branch, expanded, on the alternate screen. Rows are made when they are shown."""
