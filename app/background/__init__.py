"""What runs beside the requests: the runner, the housekeeping, and the work of jobs."""
