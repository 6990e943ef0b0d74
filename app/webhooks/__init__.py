"""Webhooks: who wants to be told of which events, and every delivery with its attempts."""
