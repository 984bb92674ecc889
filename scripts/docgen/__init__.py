"""Generated documentation: pages with tables made from the program, and JSON Schemas of the protocol."""
