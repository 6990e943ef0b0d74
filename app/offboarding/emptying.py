"""Takes a tenant's rows out of the tables, children first, so many at a time."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter

from sqlalchemy import ForeignKeyConstraint, Table

from app.db.columns import METADATA
from app.db.database import Reader
from app.db.sql import Statement

# What names the tenant until it has left; what lies in partitions of its own; and the row that is the last.
APART = frozenset({"offboardings", "memory_vectors", "memory_spaces", "tenants"})
# Where rows refer to rows of their own table, the order in which those that are referred to come last.
_NEWEST_FIRST = {
    "versions": "created_at DESC, id DESC",
    "invocations": "started_at DESC NULLS FIRST, id DESC",
}

# Versions are made in generations, and a generation names its best version: that is forgotten first.
FORGET_BEST = Statement("""
WITH forgotten AS (
  UPDATE generations SET best_version_id = NULL WHERE tenant_id = :tenant_id AND ctid = ANY (ARRAY(
    SELECT ctid FROM generations WHERE tenant_id = :tenant_id AND best_version_id IS NOT NULL
    ORDER BY id LIMIT CAST(:limit AS bigint)))
  RETURNING 1
)
SELECT count(*) AS removed, count(*) AS seen FROM forgotten""")
# What was answered to the operator under a key of its own, such as the tenant as it was made.
FORGET_ANSWERS = Statement("""
WITH forgotten AS (
  DELETE FROM idempotency_keys WHERE tenant_id = '' AND body IS NOT NULL
    AND strpos(CAST(body AS text), '"' || CAST(:tenant_id AS text) || '"') > 0
    AND CAST(body AS jsonb) @@ CAST(
      format('exists($.** ? (@.id == "%1$s" || @.tenant == "%1$s" || @.tenant_id == "%1$s"))', CAST(:tenant_id AS text))
      AS jsonpath)
  RETURNING 1
)
SELECT count(*) AS removed FROM forgotten""")
LOCK_TENANT = Statement("SELECT 1 AS held FROM tenants WHERE tenant_id = :tenant_id FOR UPDATE")
REMOVE_TENANT = Statement("""
WITH gone AS (DELETE FROM tenants WHERE tenant_id = :tenant_id RETURNING 1) SELECT count(*) AS removed FROM gone""")


@dataclass(frozen=True)
class Emptied:
    """A table, and the statement that takes at most `:limit` rows of a tenant out of it.

    It tells how many it `removed`, and how many it has `seen`: none only where nothing is left.
    """

    name: str
    remove: Statement


def tables() -> list[Emptied]:
    """Every table with rows of tenants but those `APART`, in the order in which nothing that stays refers to them."""
    owned = {name: table for name, table in METADATA.tables.items() if "tenant_id" in table.c and name not in APART}
    before: dict[str, set[str]] = {name: set() for name in sorted(owned)}
    for name, table in owned.items():
        for reference in table.foreign_key_constraints:
            parent = reference.referred_table.name
            if parent in owned and parent != name and not reference.use_alter:
                before[parent].add(name)
    return [Emptied(name, _removal(owned[name])) for name in TopologicalSorter(before).static_order()]


def _removal(table: Table) -> Statement:
    own = [one for one in table.foreign_key_constraints if one.referred_table is table]
    return _newest(table, own) if own else _in_order(table)


def _in_order(table: Table) -> Statement:
    # In the order of the key, so that the index is read on from where rows are left, and no row twice.
    order = ", ".join(column.name for column in table.primary_key)
    return Statement(f"""
WITH gone AS (
  DELETE FROM {table.name} WHERE tenant_id = :tenant_id AND ctid = ANY (ARRAY(
    SELECT ctid FROM {table.name} WHERE tenant_id = :tenant_id ORDER BY {order} LIMIT CAST(:limit AS bigint)))
  RETURNING 1
)
SELECT count(*) AS removed, count(*) AS seen FROM gone""")


def _newest(table: Table, references: list[ForeignKeyConstraint]) -> Statement:
    """Of the newest rows those that no row refers to which stays: nearly all, as children are newer than parents."""
    name = table.name
    children = " UNION ALL ".join(
        f"SELECT n.id AS parent_id, c.id FROM newest AS n JOIN {name} AS c"
        f" ON c.tenant_id = :tenant_id AND c.{one.elements[-1].parent.name} = n.id"
        for one in sorted(references, key=lambda one: str(one.elements[-1].parent.name))
    )
    return Statement(f"""
WITH RECURSIVE newest AS MATERIALIZED (
  SELECT id FROM {name} WHERE tenant_id = :tenant_id ORDER BY {_NEWEST_FIRST[name]} LIMIT CAST(:limit AS bigint)
), child AS MATERIALIZED ({children}), staying AS (
  SELECT c.parent_id AS id FROM child AS c WHERE c.id NOT IN (SELECT n.id FROM newest AS n)
  UNION
  SELECT c.parent_id FROM staying AS s JOIN child AS c ON c.id = s.id
), gone AS (
  DELETE FROM {name} WHERE tenant_id = :tenant_id
    AND id IN (SELECT n.id FROM newest AS n EXCEPT SELECT s.id FROM staying AS s)
  RETURNING 1
)
SELECT count(*) AS removed, (SELECT count(*) FROM newest) AS seen FROM gone""")


def counting() -> Statement:
    """The statement that counts what is left of a tenant, in every table but those where it is counted otherwise."""
    names = sorted(
        name for name, table in METADATA.tables.items()
        if "tenant_id" in table.c and name not in ("offboardings", "memory_vectors")
    )  # fmt: skip
    return Statement(
        " UNION ALL ".join(
            f"SELECT '{name}' AS name, count(*) AS rows FROM {name} WHERE tenant_id = :tenant_id" for name in names
        )
    )


async def left(reader: Reader, statement: Statement, tenant_id: str) -> dict[str, int]:
    """How many rows are left of a tenant, by table; those where there are any."""
    found = await reader.rows(statement, tenant_id=tenant_id)
    return {row["name"]: row["rows"] for row in found if row["rows"]}
