"""Cairn, the persistence service for AI-agent workflows."""

__version__ = "0.1.0"
