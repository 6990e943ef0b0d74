"""Shows verbatim fields in the answer to a write: read after it, spliced as text, never part of a kept answer.

A kept answer refers to payloads instead of copying them: a replay reads them again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import msgspec

from app.db.database import Answer, Reader
from app.db.shape import Shape, array
from app.db.sql import Statement


class _Named(msgspec.Struct):
    id: str


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


class Including:
    """The verbatim fields of a resource: its shape, its table as `t`, and the path parameters its key starts with."""

    def __init__(self, shape: Shape, source: str, path_keys: tuple[str, ...] = ()) -> None:
        self.shape, self.source, self.path_keys = shape, source, path_keys

    @lru_cache(maxsize=64)  # noqa: B019 - lives as long as the process
    def _statement(self, include: frozenset[str]) -> Statement:
        only = Shape(*(column for column in self.shape.columns if column.name in include))
        keys = "".join(f" AND t.{key} = :{key}" for key in self.path_keys)
        return Statement(
            f"SELECT t.id, {only.json('t', include)} AS shown FROM {self.source}"
            f" WHERE t.tenant_id = :tenant_id{keys} AND t.id = ANY (CAST(:ids AS text[]))"
        )

    async def shown(
        self, reader: Reader, tenant_id: str, path: dict[str, str], include: frozenset[str], answer: Answer
    ) -> Answer:
        """The answer with the fields named: one resource, or each of its `items`."""
        if answer.body is None or answer.status not in (200, 201):
            return answer
        many = answer.body.startswith(b'{"items"')
        bodies = (
            [bytes(item) for item in msgspec.json.decode(answer.body, type=_Items).items] if many else [answer.body]
        )
        ids = [msgspec.json.decode(body, type=_Named).id for body in bodies]
        keys = {key: path[key] for key in self.path_keys}
        rows = await reader.rows(self._statement(include), tenant_id=tenant_id, ids=ids, **keys)
        fields = {row["id"]: row["shown"] for row in rows}
        spliced = [_splice(body, fields.get(name)) for body, name in zip(bodies, ids, strict=True)]
        return replace(answer, body=b'{"items":' + array(spliced) + b"}" if many else spliced[0])


def _splice(body: bytes, fields: bytes | None) -> bytes:
    return body if fields is None else body.rstrip()[:-1] + b"," + fields.lstrip()[1:]
