"""Conversations: append-only streams with one fenced producer each."""
