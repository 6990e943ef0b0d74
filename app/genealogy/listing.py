"""Walks along the parents of versions as lists: each version once at its smallest depth, the nearest first.

The functions of the schema walk breadth first and drop what they met before, so a walk ends in any graph, and costs
grow with the versions and links that it meets, not with the paths between them. A page in ascending order is found by
a walk that ends with the level that fills it.
"""

from __future__ import annotations

from app.db.page import Listing, Sort
from app.db.shape import Shape, computed
from app.genealogy.errors import VISITED_MAX
from app.versions.store import VERSION

_TENANT = 'CAST(:tenant_id AS text) COLLATE "C" AS tenant_id'
_PAGE = "CAST(:limit AS bigint), CAST(CAST(:after_key AS text) AS integer), CAST(:after_id_0 AS text)"
_WHOLE = "NULL, NULL, NULL"


class _Found(Shape):
    """A version that a walk found, read only where it is shown, with how far it is."""

    def __init__(self, *depths: str) -> None:
        super().__init__(*VERSION.columns)
        self.depths = depths

    def json(self, alias: str, include: frozenset[str] = frozenset()) -> str:
        """The SQL expression that reads and shows the version that a row of the walk names."""
        shape = Shape(*self.columns, *(computed(depth, f"{alias}.{depth}") for depth in self.depths))
        return (
            f"(SELECT {shape.json('v', include)} FROM versions AS v"
            f" WHERE v.tenant_id = :tenant_id AND v.id = {alias}.id)"
        )


class Walk(Listing):
    """A list that walks find. `whole` is its source, `page` that of a page in ascending order."""

    def __init__(self, name: str, sort: str, shape: Shape, starts: tuple[str, ...], whole: str, page: str) -> None:
        super().__init__(
            name,
            whole,
            shape,
            sorts={sort: Sort(f"{{t}}.{sort}", "integer")},
            default=(sort, "asc"),
            # They say where the walk starts and ends, not which of its rows are shown.
            filters=dict.fromkeys((*starts, "max_depth"), "true"),
        )
        self.source_of_page = page

    def rows_of(self, order: str) -> str:
        """The whole walk in descending order, and in ascending order the one that ends with the page."""
        return self.source if order == "desc" else self.source_of_page


def _walked(name: str, start: str, wanted: str, met_max: int) -> str:
    return (
        f"cairn_{name}(CAST(:tenant_id AS text), CAST(:{start} AS text), CAST(:max_depth AS integer),"
        f" {met_max}, {wanted})"
    )


def relatives(name: str, met_max: int = VISITED_MAX) -> Walk:
    """The list of the `ancestors` or `descendants` of `:version_id`; a walk that meets more is refused."""
    whole, page = (
        f'(SELECT {_TENANT}, w.id COLLATE "C" AS id, w.depth'
        f" FROM {_walked(name, 'version_id', wanted, met_max)} AS w WHERE w.depth > 0) AS t"
        for wanted in (_WHOLE, _PAGE)
    )
    return Walk(name, "depth", _Found("depth"), ("version_id",), whole, page)


def _common() -> Walk:
    one, other = (_walked("ancestors", start, _WHOLE, VISITED_MAX) for start in ("version_id", "other_id"))
    source = (
        f'(SELECT {_TENANT}, a.id COLLATE "C" AS id, a.depth AS depth_a, b.depth AS depth_b,'
        f" a.depth + b.depth AS distance FROM {one} AS a JOIN {other} AS b ON b.id = a.id) AS t"
    )
    shape = _Found("depth_a", "depth_b")
    return Walk("common ancestors", "distance", shape, ("version_id", "other_id"), source, source)


ANCESTORS = relatives("ancestors")
DESCENDANTS = relatives("descendants")
COMMON_ANCESTORS = _common()
