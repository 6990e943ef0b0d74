"""What can be wrong with a dead letter."""

from __future__ import annotations

from app.errors import InvalidInput, NotFound


class DeadLetterNotFound(NotFound):
    """There is no such dead letter for this tenant."""

    code, title = "dead_letter_not_found", "There is no such dead letter"


class FilterRequired(InvalidInput):
    """Neither a filter was given nor `all`: what is meant for some letters is not done to all by a slip."""

    code, title = "filter_required", "Name a filter, or all"
