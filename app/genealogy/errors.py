"""What can be wrong with a question about genealogy."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import AppError


class WalkTooLong(AppError):
    """The answer lies beyond more versions than one walk may meet."""

    status, code, title = 422, "walk_too_long", "The answer lies beyond too many versions"


class DifferenceTooLarge(AppError):
    """The two DSLs are too large to be compared while a caller waits."""

    status, code, title = 422, "difference_too_large", "The versions are too large to be compared"


# What a walk meets at most before it is refused; a page of near relatives ends long before.
VISITED_MAX = 1_000_000
# `cairn_walk_too_long` raises under this name.
constraint(
    "walk_too_long",
    lambda: WalkTooLong(
        f"A walk meets at most {VISITED_MAX:,} versions; ask for a smaller max_depth.", visited_max=VISITED_MAX
    ),
)
