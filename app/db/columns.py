"""The columns that tables share, the one MetaData they belong to, and how constraints are named."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Double, MetaData, Numeric, Text, text
from sqlalchemy.dialects.postgresql import JSON, JSONB

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

IdText = Text(collation="C")
Instant = DateTime(timezone=True)
Money = Numeric(38, 18)
Score: Double[float] = Double()
NOW = text("clock_timestamp()")
EMPTY_OBJECT = text("'{}'::jsonb")
EMPTY_LIST = text("'{}'::text[]")


def tenant() -> Column[Any]:
    """The tenant, first in every key."""
    return Column("tenant_id", IdText, primary_key=True, nullable=False)


def identity(name: str = "id") -> Column[Any]:
    """An id, in byte order."""
    return Column(name, IdText, primary_key=True, nullable=False)


def reference(name: str, *, required: bool = False) -> Column[Any]:
    """The id of another row of the same tenant."""
    return Column(name, IdText, nullable=not required)


def words(name: str, *, required: bool = False) -> Column[Any]:
    """Text that people read."""
    return Column(name, Text, nullable=not required)


def moment(name: str, *, default: bool = False) -> Column[Any]:
    """An instant; `default` takes the database's clock."""
    return Column(name, Instant, nullable=not default, server_default=NOW if default else None)


def exact(name: str, *, required: bool = False) -> Column[Any]:
    """An opaque payload: `json` keeps its text byte for byte."""
    return Column(name, JSON, nullable=not required)


def searchable(name: str, *, default: bool = False) -> Column[Any]:
    """A JSON value that is filtered on."""
    return Column(name, JSONB, nullable=not default, server_default=EMPTY_OBJECT if default else None)


def revision() -> Column[Any]:
    """The number behind a strong ETag; a change that a client can see adds one."""
    return Column("revision", BigInteger, nullable=False, server_default=text("1"))
