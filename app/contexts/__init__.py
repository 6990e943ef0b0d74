"""Contexts: bytes under a key of an invocation, with what they are in short."""
