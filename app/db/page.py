"""Keyset pages: the cost of a page grows with the page, at any depth; nulls come last in either order."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.db.database import Reader
from app.db.shape import Shape, array
from app.db.sql import Statement
from app.errors import BadCursor, InvalidInput, invalid

# A page of a list that weighs what it shows ends once it has so many bytes of it.
PAGE_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True)
class Sort:
    """A way to sort: the SQL expression (`{t}` is the alias), the type its cursor key is read as, and nullability."""

    sql: str
    type: str
    nullable: bool = False


@dataclass(frozen=True)
class Page:
    """What the caller asked of a list: size, place, order, what to show, whether to count."""

    limit: int
    cursor: str | None = None
    sort: str | None = None
    order: str | None = None
    include: frozenset[str] = frozenset()
    count: bool = False


@dataclass(frozen=True)
class Found:
    """One page: each item's JSON text, the cursor of the next page, and the total if it was asked for."""

    items: list[bytes]
    next_cursor: str | None = None
    total: int | None = None
    beside: bytes = b""

    def body(self) -> bytes:
        """The page as JSON; `beside` is the text of members that stand before the items, each with its comma."""
        total = b"" if self.total is None else b',"total":%d' % self.total
        cursor = json.dumps(self.next_cursor).encode()
        return b"{" + self.beside + b'"items":' + array(self.items) + b',"next_cursor":' + cursor + total + b"}"


# The rows are weighed first, then shown as far as they fit, and one more, which says that the list goes on: the rest is
# never put together. A row fits where those before it are not too much, so the first always does.
_WEIGHED = f"""\
WITH weighed AS MATERIALIZED ({{weighed}}),
fits AS MATERIALIZED (
    SELECT count(*) AS fitting
    FROM (
        SELECT sum(bytes) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM (SELECT * FROM weighed LIMIT CAST(:limit AS bigint)) AS taken
    ) AS summed
    WHERE COALESCE(before, 0) < {PAGE_BYTES_MAX}
),
found AS MATERIALIZED ({{found}})
SELECT *, (SELECT fitting FROM fits) AS fitting
FROM found LIMIT LEAST(CAST(:limit AS bigint), (SELECT fitting FROM fits) + 1)"""


class Listing:
    """A list of one resource: where its rows are, how they are filtered and sorted.

    `source` is SQL such as `invocations AS t`; `filters` maps a parameter to a condition on `t` with the parameter as
    `:name`. Every listing is within one tenant unless it is `of_all`, and its last sort keys are `ids`, so the order
    is total. `weights` has, for fields that may be large, the SQL of their bytes: a page that shows one ends once it
    has 16 MiB of them, under sorts without nulls.
    """

    def __init__(
        self,
        name: str,
        source: str,
        shape: Shape,
        *,
        sorts: Mapping[str, Sort],
        default: tuple[str, str],
        filters: Mapping[str, str] | None = None,
        ids: tuple[str, ...] = ("t.id",),
        of_all: bool = False,
        weights: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.source, self.shape, self.ids, self.of_all = name, source, shape, ids, of_all
        self.weights = dict(weights or {})
        self.sorts, self.default, self.filters = sorts, default, dict(filters or {})

    async def page(self, reader: Reader, tenant_id: str, page: Page, given: Mapping[str, Any]) -> Found:
        """One page of what matches. `given` holds the filters that were named; each must be declared."""
        sort, order = self._order(page)
        digest = self._digest(tenant_id, sort, order, given)
        key, after_ids, place = decoded(page.cursor, digest, len(self.ids))
        most = 1 << page.limit.bit_length()
        statement = self._statement(sort, order, frozenset(given), page.include, place, most)
        try:
            rows = await reader.rows(
                statement, tenant_id=tenant_id, limit=page.limit + 1, after_key=key, **after_ids, **given
            )
        except InvalidInput as refusal:
            if place == "start":
                raise
            raise BadCursor("The cursor is damaged.") from refusal
        fitting = rows[0].get("fitting", page.limit) if rows else 0
        shown = rows[: min(page.limit, fitting)]
        following = None
        if len(rows) > len(shown):
            following = encoded(digest, shown[-1]["key"], shown[-1]["ids"])
        total = await self._total(reader, tenant_id, given) if page.count else None
        return Found([row["body"] for row in shown], following, total)

    def cursor_after(self, tenant_id: str, given: Mapping[str, Any], row: Mapping[str, Any]) -> str:
        """The cursor with which the list, in its default order under these filters, goes on after a row.

        The row has `id` and, as text, the sort's `key`.
        """
        return encoded(self._digest(tenant_id, *self.default, given), row["key"], [row["id"]])

    def _order(self, page: Page) -> tuple[str, str]:
        sort, order = page.sort or self.default[0], page.order
        if sort not in self.sorts:
            raise invalid("sort", f"must be one of {', '.join(self.sorts)}")
        if order not in (None, "asc", "desc"):
            raise invalid("order", "must be asc or desc")
        return sort, order or (self.default[1] if sort == self.default[0] else "asc")

    def _digest(self, tenant_id: str, sort: str, order: str, given: Mapping[str, Any]) -> str:
        return digest_of_list(self.name, tenant_id, sort, order, given)

    async def _total(self, reader: Reader, tenant_id: str, given: Mapping[str, Any]) -> int:
        where = self.where(given)
        counted = await reader.row(
            Statement(f"SELECT count(*) AS total FROM {self.source} WHERE {where}"), tenant_id=tenant_id, **given
        )
        return int(counted["total"]) if counted is not None else 0

    def rows_of(self, order: str) -> str:  # noqa: ARG002 - here a page in either order has one source
        """The SQL of where a page in this order, `asc` or `desc`, finds its rows.

        It may name `:limit`, `:after_key` and `:after_id_0` …, which are the page's.
        """
        return self.source

    def where(self, given: Iterable[str]) -> str:
        """The condition of a set of filters, as SQL."""
        within = "CAST(:tenant_id AS text) IS NOT NULL" if self.of_all else "t.tenant_id = :tenant_id"
        return " AND ".join([within, *(self.filters[name] for name in sorted(given))])

    def _weight(self, include: frozenset[str]) -> str | None:
        shown = include | (self.weights.keys() - self.shape.verbatim)
        weighed = [f"COALESCE({sql}, 0)" for name, sql in self.weights.items() if name in shown]
        return f"{' + '.join(weighed)} AS bytes" if weighed else None

    @lru_cache(maxsize=4096)  # noqa: B019 - listings live as long as the process
    def _statement(
        self, sort: str, order: str, given: frozenset[str], include: frozenset[str], place: str, most: int
    ) -> Statement:
        # A bound on the limit is part of the text: a limit that is a parameter counts as a tenth of the rows, so
        # PostgreSQL would not keep the plan, and making one for each page costs as much as the page. It is a power of
        # two, so that the limits that callers think of do not fill the cache of prepared statements. The limit itself
        # stands outside a materialized query, where it stops the reading, and cannot make the planner take a walk
        # through all rows for the way to a few.
        way = self.sorts[sort]
        expression = way.sql.replace("{t}", "t")
        sign = ">" if order == "asc" else "<"
        source, filters = self.rows_of(order), self.where(given)
        select = (
            f"{expression}::text AS key, ARRAY[{', '.join(self.ids)}] AS ids, {self.shape.json('t', include)} AS body"
        )
        keys = [expression, *(column for column in self.ids if column != expression)]
        after = [f"CAST(:after_id_{place} AS text)" for place in range(len(self.ids))]

        def part(condition: str, ordered: str, select: str = select) -> str:
            return f"SELECT {select} FROM {source} WHERE {filters}{condition} ORDER BY {ordered} LIMIT {most}"

        def page(condition: str, ordered: str) -> Statement:
            found, weight = part(condition, ordered), self._weight(include)
            if weight is None:
                text = f"WITH found AS MATERIALIZED ({found})\nSELECT * FROM found LIMIT CAST(:limit AS bigint)"
                return Statement(text, self.name)
            return Statement(_WEIGHED.format(weighed=part(condition, ordered, weight), found=found), self.name)

        by_key = ", ".join(f"{key} {order}" for key in keys)
        by_ids = f"({', '.join(self.ids)}) {sign} ({', '.join(after)})"
        # A cursor holds texts; the inner cast says so to the driver.
        key = f"CAST(CAST(:after_key AS text) AS {way.type})"
        beyond = f" AND ({', '.join(keys)}) {sign} ({', '.join([key, *after])})"
        if expression in self.ids:
            beyond = f" AND {by_ids}"
        if not way.nullable:
            return page("" if place == "start" else beyond, by_key)
        # Ordered by the key although it is null: only so does the planner see that an index has the ids in order.
        nulls = f" AND {expression} IS NULL"
        if place == "null":
            nulls += f" AND {by_ids}"
            return page(nulls, by_key)
        valued = part(f" AND {expression} IS NOT NULL" + ("" if place == "start" else beyond), by_key)
        # Those without a value are read only where those with one do not fill the page. UNION ALL gives its halves one
        # after the other, each in its order: what reads a WITH query never runs in parallel.
        nulls += " AND (SELECT count(*) FROM valued) < CAST(:limit AS bigint)"
        return Statement(
            f"WITH valued AS MATERIALIZED ({valued}), rest AS MATERIALIZED ({part(nulls, by_key)})\n"
            "SELECT * FROM (SELECT * FROM valued UNION ALL SELECT * FROM rest) AS halves"
            " LIMIT CAST(:limit AS bigint)",
            self.name,
        )


def digest_of_list(name: str, tenant_id: str, sort: str, order: str, given: Mapping[str, Any]) -> str:
    """What a cursor carries, so that it goes on in its own list, order and filter only."""
    parts = [name, tenant_id, sort, order, sorted((name, str(value)) for name, value in given.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def encoded(digest: str, key: str | None, ids: Sequence[str]) -> str:
    """The cursor that stands after a row with this sort key and these ids."""
    text = json.dumps([digest, key, *ids], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decoded(cursor: str | None, digest: str, width: int) -> tuple[str | None, dict[str, str | None], str]:
    """Key, ids and place (`start`, `key`, `null`) of a cursor. Raises `BadCursor` for one of another list."""
    if cursor is None:
        return None, {f"after_id_{place}": None for place in range(width)}, "start"
    try:
        found, key, *ids = json.loads(base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, RecursionError):
        raise BadCursor("The cursor is damaged; start again without one.") from None
    known = found == digest and len(ids) == width and isinstance(key, str | None)
    if not known or not all(isinstance(item, str) for item in ids) or not _text(key, *ids):
        raise BadCursor("The cursor belongs to another list, filter or order; start again without one.")
    return key, {f"after_id_{place}": item for place, item in enumerate(ids)}, "null" if key is None else "key"


def _text(*parts: str | None) -> bool:
    """Whether PostgreSQL can hold the parts as text."""
    try:
        return b"\x00" not in "".join(part or "" for part in parts).encode()
    except UnicodeEncodeError:
        return False
