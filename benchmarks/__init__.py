"""Measures the service against limits taken in the same run: what raw asyncpg and the bare framework can do."""
