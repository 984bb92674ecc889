"""docs/protocol.md: prose from a template, tables from the records themselves."""
