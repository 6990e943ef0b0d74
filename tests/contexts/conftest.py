"""An invocation that contexts belong to."""

from __future__ import annotations

import pytest

from tests.conftest import Make


@pytest.fixture(autouse=True)
async def invocation(make: Make) -> None:
    """The invocation `i`."""
    await make.invocation(id="i")
