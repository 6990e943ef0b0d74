"""The cache: Redis or Valkey, whose loss makes things slower and never wrong."""
