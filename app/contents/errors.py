"""What can be wrong with stored bytes."""

from __future__ import annotations

from app.errors import PersistenceError


class ContentDamaged(PersistenceError):
    """The stored bytes are not those that were stored: a chunk is missing, or does not fit its digest."""
