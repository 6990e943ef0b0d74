"""Artifacts: bytes named by their digest, in the object store, and what refers to them."""
