"""The door to the service that makes embeddings of texts."""
