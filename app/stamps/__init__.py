"""Format stamps: which format a client's data has."""
