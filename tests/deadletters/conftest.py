"""Letters of deliveries need webhooks."""

from tests.webhooks.conftest import hooks

__all__ = ["hooks"]
