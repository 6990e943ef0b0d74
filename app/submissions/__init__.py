"""Submissions: the durable, leased, fenced queue."""
