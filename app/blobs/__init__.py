"""The door to the object store: a folder, or a bucket of an S3-compatible service."""
