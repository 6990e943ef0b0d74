"""Calls about the formats of clients' data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Unpack

from app.client.bodies import Paging
from app.client.call import Call, Page, nothing, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import dump
from app.client.submission_models import FormatStamp

M = TypeVar("M")


class FormatStamps(Resource[M]):
    """Which format a client's data has: a value under a name."""

    @endpoint
    def open(self, name: str, value: str, *, adopt: Mapping[str, Sequence[str]] | None = None) -> Call[FormatStamp]:
        """Open the store in a format: stamp an empty one, adopt an older name's value, or raise `ConflictError`.

        The codes are `format_unsupported` (with both values) and `unversioned_store` (data without a stamp).
        """
        body: dict[str, Any] = {"name": name, "value": value}
        if adopt is not None:
            body["adopt"] = {old: [*values] for old, values in adopt.items()}
        return Call("POST", path("format-stamps", "open"), one(FormatStamp), body=dump(body))

    @endpoint
    def put(self, name: str, value: str) -> Call[FormatStamp]:
        """Set a stamp."""
        return Call("PUT", path("format-stamps", name), one(FormatStamp), body=dump({"value": value}))

    @endpoint
    def get(self, name: str) -> Call[FormatStamp]:
        """One stamp."""
        return Call("GET", path("format-stamps", name), one(FormatStamp))

    @listing
    def list(self, **filters: Unpack[Paging]) -> Call[Page[FormatStamp]]:
        """The stamps by name."""
        return Call("GET", path("format-stamps"), page_of(FormatStamp), query(filters))

    @endpoint
    def delete(self, name: str) -> Call[None]:
        """Remove a stamp."""
        return Call("DELETE", path("format-stamps", name), nothing)
