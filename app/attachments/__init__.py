"""Attachments: immutable bytes under the path of a conversation."""
