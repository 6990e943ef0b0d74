"""Vectors on their way to PostgreSQL and back: in pgvector's binary form, which is read and written without a parse.

A vector is `bytes`: its numbers in single precision, the most significant byte first. A parameter of the type `vector`
or `vector[]` takes it so, and a column of it gives it so.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable

import asyncpg

_NUMBER_BYTES = 4
# pgvector may be installed in a schema of its own; it is found on the way that statements find it.
_FIND = (
    "SELECT n.nspname FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace WHERE t.oid = to_regtype($1)"
)


def packed(numbers: Iterable[float]) -> bytes:
    """The numbers as a vector, each rounded to single precision: to an infinity where it is beyond that."""
    found = array("f", numbers)
    if sys.byteorder == "little":
        found.byteswap()
    return found.tobytes()


def unpacked(vector: bytes) -> array[float]:
    """The numbers of a vector, exactly."""
    found = array("f", vector)
    if sys.byteorder == "little":
        found.byteswap()
    return found


async def set_vector_codec(connection: asyncpg.Connection) -> None:
    """Let vectors come and go as bytes, where the database has their type."""
    schema = await connection.fetchval(_FIND, "vector")
    if schema is None:
        return
    await connection.set_type_codec(
        "vector",
        schema=schema,
        format="binary",
        # How many numbers, and two bytes that are not used.
        encoder=lambda vector: (len(vector) // _NUMBER_BYTES).to_bytes(2) + b"\x00\x00" + vector,
        decoder=lambda sent: sent[4:],
    )
