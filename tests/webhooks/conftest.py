"""Webhooks of the test's own tenant."""

from __future__ import annotations

import httpx
import pytest

from app.http.service import Service
from tests.webhooks.hooks import Hooks


@pytest.fixture
def hooks(service: Service, client: httpx.AsyncClient) -> Hooks:
    """Makes webhooks and deliveries."""
    return Hooks(service, client)
