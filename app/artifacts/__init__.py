"""Artifacts: immutable bytes named by their SHA-256, what refers to them, and their collection."""
