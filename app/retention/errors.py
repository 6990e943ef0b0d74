"""What retention says no to."""

from __future__ import annotations

from app.errors import NotFound, PersistenceError


class PinNotFound(NotFound):
    """Nothing is pinned under this kind and id."""

    code, title = "pin_not_found", "There is no such pin"


class NothingToPin(NotFound):
    """There is no such thing that could be pinned."""

    code, title = "nothing_to_pin", "What would be pinned is not there"


class RetentionFailed(PersistenceError):
    """Some kinds could not be followed to their end; the rules say which, and why. The others were."""

    code, title = "retention_failed", "Some kinds could not be followed"
