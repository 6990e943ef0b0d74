"""A small genetic search that keeps its whole record in the service, as any worker would: over HTTP alone."""
