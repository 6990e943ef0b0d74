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

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


class Including:
    """The verbatim fields of a resource: its shape, its table as `t`, and the path parameters its key starts with.

    `key` is the member and the SQL type of what identifies it after those; `within` is the member of the answer that
    holds the resource, where the answer is not the resource itself. What is shown `always` is part of the answer
    already, unless that is a replay.
    """

    def __init__(
        self,
        shape: Shape,
        source: str,
        path_keys: tuple[str, ...] = (),
        *,
        key: tuple[str, str] = ("id", "text"),
        within: str | None = None,
        always: frozenset[str] = frozenset(),
    ) -> None:
        self.shape, self.source, self.path_keys, self.key, self.within = shape, source, path_keys, key, within
        self.always = always

    def wanted(self, text: str | None, answer: Answer) -> frozenset[str]:
        """The fields that are still to be shown. Raises `InvalidInput` where `include` names what is no field."""
        include = self.shape.included(text) | self.always
        return include if answer.kept is None else include - self.always

    @lru_cache(maxsize=64)  # noqa: B019 - lives as long as the process
    def _statement(self, include: frozenset[str]) -> Statement:
        only = Shape(*(column for column in self.shape.columns if column.name in include))
        keys = "".join(f" AND t.{key} = :{key}" for key in self.path_keys)
        name, kind = self.key
        return Statement(
            f"SELECT CAST(t.{name} AS text) AS id, {only.json('t', include)} AS shown FROM {self.source}"
            f" WHERE t.tenant_id = :tenant_id{keys} AND t.{name} = ANY (CAST(CAST(:ids AS text[]) AS {kind}[]))"
        )

    async def shown(
        self, reader: Reader, tenant_id: str, path: dict[str, str], include: frozenset[str], answer: Answer
    ) -> Answer:
        """The answer with the fields named: one resource, each of its `items`, or the one within it."""
        if answer.body is None or answer.status not in (200, 201):
            return answer
        if self.within is not None:
            members = _members(answer.body)
            held = bytes(members.get(self.within, b"null"))
            if held == b"null":
                return answer
            spliced = await self._spliced(reader, tenant_id, path, include, [held])
            members[self.within] = msgspec.Raw(spliced[0])
            return replace(answer, body=msgspec.json.encode(members))
        if not answer.body.startswith(b'{"items"'):
            return replace(answer, body=(await self._spliced(reader, tenant_id, path, include, [answer.body]))[0])
        bodies = [bytes(item) for item in msgspec.json.decode(answer.body, type=_Items).items]
        spliced = await self._spliced(reader, tenant_id, path, include, bodies)
        return replace(answer, body=b'{"items":' + array(spliced) + b"}")

    async def _spliced(
        self, reader: Reader, tenant_id: str, path: dict[str, str], include: frozenset[str], bodies: list[bytes]
    ) -> list[bytes]:
        ids = [str(msgspec.json.decode(_members(body)[self.key[0]])) for body in bodies]
        keys = {key: path[key] for key in self.path_keys}
        rows = await reader.rows(self._statement(include), tenant_id=tenant_id, ids=ids, **keys)
        fields = {row["id"]: row["shown"] for row in rows}
        return [_splice(body, fields.get(name)) for body, name in zip(bodies, ids, strict=True)]


def _splice(body: bytes, fields: bytes | None) -> bytes:
    return body if fields is None else body.rstrip()[:-1] + b"," + fields.lstrip()[1:]
