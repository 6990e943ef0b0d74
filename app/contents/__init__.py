"""Contents: bytes of any size, in chunks, behind a number."""
