"""A rule of retention, and a kind of rows that one is about: the SQL that finds what it lets go, in pages.

Of a kind's rows `t` is one. Whatever is to leave is locked first and judged again under the lock, by a snapshot of its
own: a pin, a child, a reference that came meanwhile keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from app.db.sql import Statement

# How many rows one statement looks at. It stands in the text of the statement, so that every plan knows how few.
PAGE_MAX = 500
CUTOFF = "now() - make_interval(days => CAST(:max_age_days AS int))"


@dataclass(frozen=True)
class Rule:
    """By which rule a kind leaves. Without an age nothing does."""

    max_age_days: int | None
    keep_latest: int | None = None
    keep_pinned: bool = True
    keep_best: bool = True
    keep_failed: bool = False

    def arguments(self) -> dict[str, Any]:
        """The same as arguments of a kind's statements."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Kind:
    """A kind of rows. `order` are an instant that is no later than `aged`, and an id: an index has them in this order.

    `ended` says which rows may leave at all; `holds` what makes them stay whatever the rule says. `latest` are the
    columns within which, and by which, the latest are kept; `pin` the kind of its pins and the SQL of their id; `best`
    and `failed` what these switches keep. Where rows descend from one another by `parent`, a parent stays as long as a
    child does. Where rows leave with the one that their `joins` names, `locks` takes those that join one of `keys`.
    What fits the SQL of `prunes` loses its content alone, and is counted by the name before it.
    """

    name: str
    table: str
    ended: str
    aged: str
    order: tuple[str, str] = ("created_at", "id")
    key: str = "id"
    key_type: str = "text"
    holds: tuple[str, ...] = ()
    latest: tuple[str | None, str] | None = None
    pin: tuple[str, str] | None = None
    best: str | None = None
    failed: str | None = None
    parent: str | None = None
    joins: str | None = None
    prunes: tuple[str, str] | None = None
    locks: Statement | None = field(default=None, compare=False)

    @property
    def switches(self) -> frozenset[str]:
        """Which members of a rule, beside the age, mean something here."""
        known = {
            "keep_latest": self.latest,
            "keep_pinned": self.pin,
            "keep_best": self.best,
            "keep_failed": self.failed,
        }
        return frozenset(name for name, means in known.items() if means is not None)

    @cached_property
    def page(self) -> Statement:
        """The next rows after a place, and those of them that are to leave, locked; what others hold is passed over.

        SKIP LOCKED: whoever holds a row is at work on it. FOR UPDATE: nobody can refer to it before the commit.
        """
        at, tie = self.order
        return Statement(
            f"""
WITH page AS MATERIALIZED (
  SELECT * FROM (
    SELECT t.{self.key} AS key, t.{at} AS at, t.{tie} AS tie, {self._part} AS part FROM {self.table} AS t
    WHERE t.tenant_id = :tenant_id AND t.{at} < {CUTOFF}
      AND (t.{at}, t.{tie}) > (CAST(CAST(:after AS text) AS timestamptz), CAST(:after_tie AS text))
    ORDER BY t.{at}, t.{tie} LIMIT CAST(:limit AS bigint)
  ) AS found LIMIT {PAGE_MAX}
), {self._edge}, going AS MATERIALIZED (
  SELECT p.key, p.at, p.tie FROM {self._judged}
    AND {self._childless}
  ORDER BY p.at, p.tie FOR UPDATE OF t SKIP LOCKED
)
SELECT (SELECT ARRAY[CAST(at AS text), tie] FROM page ORDER BY page.at DESC, page.tie DESC LIMIT 1) AS last,
  ARRAY(SELECT key FROM going ORDER BY going.at, going.tie) AS keys""",
            f"page_of_{self.name}",
        )

    @cached_property
    def check(self) -> Statement:
        """Which of the locked rows are to leave by what is there now, in their order, with their places."""
        at, tie = self.order
        return Statement(
            f"""
WITH page AS MATERIALIZED (
  SELECT t.{self.key} AS key, t.{at} AS at, t.{tie} AS tie, {self._part} AS part FROM {self.table} AS t
  WHERE t.tenant_id = :tenant_id AND t.{self.key} = ANY (CAST(:keys AS {self.key_type}[]))
  LIMIT {PAGE_MAX}
), {self._edge}
SELECT p.key, CAST(p.at AS text) AS at, p.tie FROM {self._judged}
  AND {self._childless}
ORDER BY p.at, p.tie""",
            f"check_of_{self.name}",
        )

    @cached_property
    def count(self) -> Statement:
        """How many would leave as `n`, children before their parents, and how many as `pruned` their content alone."""
        at, tie = self.order
        pruned = "false" if self.prunes is None else self.prunes[1]
        judged = f"""
WITH RECURSIVE page AS MATERIALIZED (
  SELECT t.{self.key} AS key, t.{at} AS at, t.{tie} AS tie, {self._part} AS part FROM {self.table} AS t
  WHERE t.tenant_id = :tenant_id AND t.{at} < {CUTOFF}
), {self._edge}, going AS MATERIALIZED (SELECT p.key, {pruned} AS is_pruned FROM {self._judged})"""
        if self.parent is None:
            with_it = "0" if self.joins is None else (
                f"(SELECT count(*) FROM going AS g JOIN {self.table} AS c ON c.tenant_id = :tenant_id"
                f" AND c.{self.joins} = g.key)"
            )  # fmt: skip
            return Statement(
                f"{judged} SELECT count(*) FILTER (WHERE NOT is_pruned) + {with_it} AS n,"
                " count(*) FILTER (WHERE is_pruned) AS pruned FROM going",
                f"count_of_{self.name}",
            )
        return Statement(f"""{judged}, staying AS (
  SELECT c.{self.parent} AS key FROM {self.table} AS c
  WHERE c.tenant_id = :tenant_id AND c.{self.parent} IS NOT NULL
    AND NOT EXISTS (SELECT FROM going AS g WHERE g.key = c.{self.key})
  UNION
  SELECT t.{self.parent} FROM staying AS s
  JOIN {self.table} AS t ON t.tenant_id = :tenant_id AND t.{self.key} = s.key WHERE t.{self.parent} IS NOT NULL
)
SELECT count(*) AS n, 0 AS pruned FROM going AS g WHERE NOT EXISTS (SELECT FROM staying AS s WHERE s.key = g.key)""",
            f"count_of_{self.name}",
        )  # fmt: skip

    @property
    def _part(self) -> str:
        return f"t.{self.latest[0]}" if self.latest and self.latest[0] else "true"

    @property
    def _edge(self) -> str:
        """The earliest of the latest, of each part that has so many."""
        if self.latest is None:
            return "edge AS MATERIALIZED (SELECT true AS part)"
        part, sort = self.latest
        within = f" AND n.{part} = g.part" if part else ""
        ended = self.ended.replace("t.", "n.")
        return f"""edge AS MATERIALIZED (
  SELECT g.part, n.sort, n.tie FROM (SELECT DISTINCT part FROM page) AS g CROSS JOIN LATERAL (
    SELECT n.{sort} AS sort, n.{self.order[1]} AS tie FROM {self.table} AS n
    WHERE n.tenant_id = :tenant_id{within} AND n.{sort} IS NOT NULL AND {ended}
    ORDER BY n.{sort} DESC, n.{self.order[1]} DESC
    OFFSET GREATEST(COALESCE(CAST(:keep_latest AS bigint), 1) - 1, 0) LIMIT 1
  ) AS n WHERE CAST(:keep_latest AS bigint) > 0
)"""

    @property
    def _judged(self) -> str:
        """The rows of the page that the rule lets go, but for what their children say."""
        rule = [self.ended, f"{self.aged} < {CUTOFF}", *(f"NOT {held}" for held in self.holds)]
        joined = ""
        if self.latest is not None:
            joined = " LEFT JOIN edge AS e ON e.part = p.part"
            # What has no place in that order is older than all that has one.
            rule.append(
                f"(COALESCE(CAST(:keep_latest AS bigint), 0) = 0 OR (t.{self.latest[1]}, t.{self.order[1]})"
                f" < (e.sort, e.tie) OR (t.{self.latest[1]} IS NULL AND e.sort IS NOT NULL))"
            )
        if self.pin is not None:
            rule.append(f"NOT (CAST(:keep_pinned AS boolean) AND {pinned(*self.pin)})")
        if self.best is not None:
            rule.append(f"NOT (CAST(:keep_best AS boolean) AND {self.best})")
        if self.failed is not None:
            rule.append(f"NOT (CAST(:keep_failed AS boolean) AND {self.failed})")
        where = "\n    AND ".join(rule)
        return (
            f"page AS p JOIN {self.table} AS t ON t.tenant_id = :tenant_id AND t.{self.key} = p.key{joined}"
            f"\n  WHERE {where}"
        )

    @property
    def _childless(self) -> str:
        if self.parent is None:
            return "true"
        return (
            f"NOT EXISTS (SELECT FROM {self.table} AS c WHERE c.tenant_id = t.tenant_id"
            f" AND c.{self.parent} = t.{self.key})"
        )


def pinned(kind: str, sql: str) -> str:
    """The SQL of whether something is pinned."""
    return (
        f"EXISTS (SELECT FROM pins AS pin WHERE pin.tenant_id = :tenant_id AND pin.kind = '{kind}' AND pin.id = {sql})"
    )
