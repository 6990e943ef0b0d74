"""Format stamps in SQL."""

from __future__ import annotations

from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant
from app.db.sql import load
from app.errors import changed
from app.stamps.errors import FormatUnsupported, StampNotFound, UnversionedStore

STAMP = Shape("name", "value", instant("created_at"), instant("updated_at"))
STAMPS = Listing(
    "format stamps",
    "format_stamps AS t",
    STAMP,
    sorts={"name": Sort("{t}.name", "text")},
    default=("name", "asc"),
    ids=("t.name",),
)
_SQL = load(__file__, stamp=STAMP.json("s"))


async def open_store(writer: Writer, tenant_id: str, name: str, value: str, adopt: dict[str, list[str]]) -> Answer:
    """The stamp, if the tenant's data has this format; made where there is no data yet, or out of an older stamp.

    `adopt` has, by older name, the values that stand for this format. Raises `FormatUnsupported`, `UnversionedStore`.
    """
    pairs = [(older, listed) for older, values in adopt.items() for listed in values]
    wanted = {
        "tenant_id": tenant_id, "name": name, "value": value, "adopt": list(adopt),
        "names": [older for older, _ in pairs], "values": [listed for _, listed in pairs],
    }  # fmt: skip

    async def why() -> None:
        found = await writer.row(_SQL["why"], **wanted)
        assert found is not None
        if found["name"] is not None:
            raise FormatUnsupported(
                f"The stamp {found['name']!r} is {found['value']!r}, which is not supported.",
                name=found["name"], stored_value=found["value"],
                supported_values=[value] if found["name"] == name else adopt[found["name"]],
            )  # fmt: skip
        if found["holds_data"]:
            raise UnversionedStore("There is data, but no stamp says which format it has.", name=name)

    return await decided(writer, _SQL["open"], why, **wanted)


async def put(
    writer: Writer, tenant_id: str, name: str, value: str, if_match: list[int] | None, *, may_create: bool
) -> Answer:
    """Set a stamp: 201 where it was not there. Raises `PreconditionFailed`."""

    async def why() -> None:
        stored = await writer.row(_SQL["get"], tenant_id=tenant_id, name=name)
        if stored is None and not may_create:
            raise changed("stamp", None)
        if stored is not None and if_match is not None and stored["revision"] not in if_match:
            raise changed("stamp", stored["revision"])

    return await decided(
        writer, _SQL["put"], why, tenant_id=tenant_id, name=name, value=value, if_match=if_match, may_create=may_create
    )


async def delete(writer: Writer, tenant_id: str, name: str, if_match: list[int] | None) -> Answer:
    """Delete a stamp. Raises `StampNotFound`, `PreconditionFailed`."""
    answer = await writer.answer(_SQL["delete"], tenant_id=tenant_id, name=name, if_match=if_match)
    if answer is None:
        raise changed("stamp", (await _standing(writer, tenant_id, name))["revision"])
    return answer


async def get(reader: Reader, tenant_id: str, name: str) -> Answer:
    """A stamp. Raises `StampNotFound`."""
    row = await _standing(reader, tenant_id, name)
    return Answer(200, row["body"], row["revision"])


async def _standing(reader: Reader, tenant_id: str, name: str) -> Any:
    row = await reader.row(_SQL["get"], tenant_id=tenant_id, name=name)
    if row is None:
        raise StampNotFound("There is no such format stamp.", name=name)
    return row
