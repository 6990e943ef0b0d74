"""What can be wrong with a dead letter."""

from __future__ import annotations

from app.errors import NotFound


class DeadLetterNotFound(NotFound):
    """There is no such dead letter for this tenant."""

    code, title = "dead_letter_not_found", "There is no such dead letter"
