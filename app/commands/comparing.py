"""What a database holds and how it is built, told so briefly that two databases can be compared."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from app.commands.dumping import connected

# Text of rows is the same whatever the role or the database says about how values are written.
_SESSION = (
    "SET statement_timeout = 0",
    "SET timezone = 'UTC'",
    "SET datestyle = 'ISO, YMD'",
    "SET intervalstyle = 'postgres'",
    "SET bytea_output = 'hex'",
    "SET extra_float_digits = 1",
)
# What an extension made is the extension's, in each of its versions.
_OWN = (
    "n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' AND NOT EXISTS (SELECT FROM pg_depend d"
    " WHERE d.deptype = 'e' AND d.classid = '{catalog}'::regclass AND d.objid = {alias}.oid)"
)
_RELATION = "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
_OF_RELATION = _OWN.format(catalog="pg_class", alias="c")
# No sort and no state that grows: the halves of the rows' MD5 are added up.
_ROWS = (
    "SELECT count(*) AS rows, COALESCE(sum(('x' || left(digest, 16))::bit(64)::bigint::numeric), 0) AS first,"
    " COALESCE(sum(('x' || right(digest, 16))::bit(64)::bigint::numeric), 0) AS second"
    " FROM (SELECT md5(counted::text) AS digest FROM {table} counted) AS digests"
)
_SHAPE = {
    "column": (
        "SELECT c.relname || '.' || a.attname || ' ' || row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum),"
        " concat_ws(' ', format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'not null' END,"
        " NULLIF(a.attidentity, ''), NULLIF(a.attgenerated, ''), pg_get_expr(x.adbin, x.adrelid), l.collname)"
        f" FROM {_RELATION} JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " LEFT JOIN pg_attrdef x ON x.adrelid = c.oid AND x.adnum = a.attnum"
        " LEFT JOIN pg_collation l ON l.oid = a.attcollation"
        f" WHERE c.relkind IN ('r', 'p', 'v', 'm') AND {_OF_RELATION}"
    ),
    "constraint": (
        "SELECT c.relname || '.' || k.conname, pg_get_constraintdef(k.oid) || CASE WHEN k.convalidated THEN ''"
        f" ELSE ' not valid' END FROM {_RELATION} JOIN pg_constraint k ON k.conrelid = c.oid WHERE {_OF_RELATION}"
    ),
    "index": (
        "SELECT c.relname, pg_get_indexdef(c.oid) || CASE WHEN i.indisvalid THEN '' ELSE ' invalid' END"
        f" FROM {_RELATION} JOIN pg_index i ON i.indexrelid = c.oid WHERE {_OF_RELATION}"
    ),
    "partition": (
        "SELECT c.relname, i.inhparent::regclass::text || ' ' || pg_get_expr(c.relpartbound, c.oid)"
        f" FROM {_RELATION} JOIN pg_inherits i ON i.inhrelid = c.oid WHERE c.relkind IN ('r', 'p') AND {_OF_RELATION}"
    ),
    "trigger": (
        f"SELECT c.relname || '.' || t.tgname, pg_get_triggerdef(t.oid) FROM {_RELATION}"
        f" JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal WHERE {_OF_RELATION}"
    ),
    "function": (
        "SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid) FROM pg_proc p"
        " JOIN pg_namespace n ON n.oid = p.pronamespace"
        f" WHERE p.prokind IN ('f', 'p') AND {_OWN.format(catalog='pg_proc', alias='p')}"
    ),
    "extension": "SELECT extname, extversion FROM pg_extension",
}


@dataclass(frozen=True)
class Holding:
    """A database: `rows` and their digest by table, where each sequence stands, and what it is built of."""

    rows: dict[str, tuple[int, str]]
    sequences: dict[str, str]
    shape: dict[str, str]


async def holding(url: str) -> Holding:
    """Looks at the whole database in one snapshot. Reads every row, in little memory. Raises `DumpRefused`."""
    connection = await connected(url)
    try:
        for statement in _SESSION:
            await connection.execute(statement)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.execute(await _every_schema(connection))
            return Holding(await _rows(connection), await _sequences(connection), await _shape(connection))
    finally:
        await connection.close()


async def _every_schema(connection: asyncpg.Connection) -> str:
    """Names are told without their schemas, so that it does not count where an extension lies."""
    return str(
        await connection.fetchval(
            "SELECT 'SET LOCAL search_path = ' || string_agg(quote_ident(nspname), ', ' ORDER BY nspname)"
            " FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'"
        )
    )


async def _rows(connection: asyncpg.Connection) -> dict[str, tuple[int, str]]:
    tables = await connection.fetch(
        f"SELECT c.oid::regclass::text AS name FROM {_RELATION}"
        f" WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND {_OF_RELATION} ORDER BY 1"
    )
    found = {}
    for table in tables:
        row = await connection.fetchrow(_ROWS.format(table=table["name"]))
        found[table["name"]] = (row["rows"], _digest(row["first"]) + _digest(row["second"]))
    return found


def _digest(total: object) -> str:
    return f"{int(str(total)) % 2**64:016x}"


async def _sequences(connection: asyncpg.Connection) -> dict[str, str]:
    names = await connection.fetch(
        f"SELECT c.oid::regclass::text AS name FROM {_RELATION} WHERE c.relkind = 'S' AND {_OF_RELATION} ORDER BY 1"
    )
    told = "SELECT last_value || CASE WHEN is_called THEN '' ELSE ' next' END FROM {}"
    return {row["name"]: await connection.fetchval(told.format(row["name"])) for row in names}


async def _shape(connection: asyncpg.Connection) -> dict[str, str]:
    found = {}
    for kind, statement in _SHAPE.items():
        for name, definition in await connection.fetch(statement):
            found[f"{kind} {name}"] = definition
    return dict(sorted(found.items()))
