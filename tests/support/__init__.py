"""What tests share: processes, servers, builders, catalogues of faults."""
