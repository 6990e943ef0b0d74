"""Conversations: append-only streams of records, each with one producer at a time."""
