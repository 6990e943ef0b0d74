"""Cairn, the persistence service for AI-agent workflows."""
