"""How a row is shown as JSON: PostgreSQL writes the text, so nothing is decoded and dumped on the way out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.errors import invalid


@dataclass(frozen=True)
class Column:
    """One member: its name on the wire, the SQL of its value (`{t}` is the table's alias), and how it is kept."""

    name: str
    sql: str
    verbatim: bool = False


def plain(name: str, column: str | None = None) -> Column:
    """A member that is shown as PostgreSQL writes it."""
    return Column(name, f"{{t}}.{column or name}")


def instant(name: str, column: str | None = None) -> Column:
    """An instant: RFC 3339, UTC, microseconds, `Z`."""
    return Column(name, instant_sql(f"{{t}}.{column or name}"))


def money(name: str) -> Column:
    """A decimal with its exact digits and no trailing zeros."""
    return Column(name, f"trim_scale({{t}}.{name})")


def verbatim(name: str) -> Column:
    """An opaque payload: shown only when `?include=` names it, byte for byte."""
    return Column(name, f"{{t}}.{name}", verbatim=True)


def computed(name: str, sql: str) -> Column:
    """A member computed from the row; `{t}` stands for the alias."""
    return Column(name, sql)


def instant_sql(expression: str) -> str:
    """The SQL that writes an instant as RFC 3339 text."""
    return f"to_char({expression} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"


class Shape:
    """The members of a resource, in the order in which they are shown.

    `beside` is SQL that gives one more row to read members from, such as `LATERAL (…) AS d`; `{t}` is the alias.
    """

    def __init__(self, *columns: Column | str, beside: str = "") -> None:
        self.beside = f" FROM {beside}" if beside else ""
        self.columns = tuple(plain(column) if isinstance(column, str) else column for column in columns)
        self.verbatim = frozenset(column.name for column in self.columns if column.verbatim)

    def json(self, alias: str, include: frozenset[str] = frozenset()) -> str:
        """The SQL expression that shows a row of the table under `alias`, with the verbatim members named."""
        shown = (column for column in self.columns if not column.verbatim or column.name in include)
        listed = ", ".join(f'{column.sql.replace("{t}", alias)} AS "{column.name}"' for column in shown)
        beside = self.beside.replace("{t}", alias)
        return f"(SELECT row_to_json(shown) FROM (SELECT {listed}{beside}) AS shown)"

    def shown(self, text: str | None) -> frozenset[str]:
        """The verbatim members that a read of one resource shows: those that `?include=` names, or all."""
        return self.verbatim if text is None else self.included(text)

    def included(self, text: str | None) -> frozenset[str]:
        """The verbatim members that `?include=a,b` names. Raises `InvalidInput` for any other name."""
        names = frozenset(text.split(",")) if text else frozenset()
        if not names <= self.verbatim:
            allowed = ", ".join(sorted(self.verbatim)) or "nothing here"
            raise invalid("include", f"may name only {allowed}")
        return names


def stored_bytes(column: str) -> str:
    """The SQL of a payload's size; only a compressed one is unpacked for it."""
    return (
        f"(CASE WHEN {column} IS NULL THEN 0 WHEN pg_column_compression({column}) IS NULL"
        f" THEN pg_column_size({column}) ELSE octet_length(CAST({column} AS text)) END)"
    )


def array(texts: Iterable[bytes]) -> bytes:
    """A JSON array of values that are JSON already."""
    return b"[" + b",".join(texts) + b"]"


def only(json: str) -> str:
    """The SQL aggregate that gives the JSON of the only row."""
    return f"(array_agg({json}))[1]"


def items(json: str, order: str) -> str:
    """The SQL aggregate that gives `{"items":[…]}` of the JSON of each row, in an order."""
    return f"CAST('{{\"items\":[' || string_agg(CAST({json} AS text), ',' ORDER BY {order}) || ']}}' AS json)"
