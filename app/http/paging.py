"""The parameters that every list takes, and a page as an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar
from urllib.parse import parse_qsl, urlencode

from pydantic import BaseModel, Field

from app.db.database import Answer
from app.db.page import Found, Listing, Page
from app.errors import invalid
from app.http.call import Call
from app.http.fields import Query

PAGING = frozenset({"limit", "cursor", "sort", "order", "include", "count"})


LIMIT = Field(
    ge=1, description="Items of the page; 50 unless given, 1000 at most.", json_schema_extra={"maximum": 1000}
)
Item = TypeVar("Item")


class PageOf(BaseModel, Generic[Item]):
    """What a list answers; `total` only where `count=exact` asked for it."""

    items: list[Item]
    next_cursor: str | None
    total: int | None = None


class IncludeQuery(Query):
    """Which verbatim fields to show."""

    include: str | None = Field(None, description="Verbatim fields to show, separated by commas.")


class ListQuery(Query):
    """How a list is paged: keyset pages, at the same cost at any depth."""

    limit: Annotated[int, LIMIT] | None = None
    cursor: str | None = Field(None, description="`next_cursor` of the page before.")
    sort: str | None = None
    order: Literal["asc", "desc"] | None = None
    count: Literal["exact"] | None = Field(None, description="`exact` adds `total`.")

    def filters(self) -> dict[str, Any]:
        """The filters that were given, by name."""
        return {name: getattr(self, name) for name in self.model_fields_set - PAGING}


class IncludingListQuery(ListQuery):
    """A list whose verbatim fields can be asked for."""

    include: str | None = Field(None, description="Verbatim fields to show, separated by commas.")


async def page(
    call: Call,
    listing: Listing,
    query: ListQuery,
    given: Mapping[str, Any] | None = None,
    if_empty: Callable[[], Awaitable[object]] | None = None,
) -> Answer:
    """One page of a listing, with its `Link` to the next. Count and page come from one snapshot.

    `if_empty` is awaited where there is nothing to show; it raises where what the list belongs to is not there.
    """
    wanted = asked(call, query, listing.shape.included(getattr(query, "include", None)))
    filters = query.filters() if given is None else given
    tenant_id = "" if listing.of_all else call.tenant_id
    if wanted.count and not call.batched:
        async with call.ground.database.reading() as reader:
            found = await listing.page(reader, tenant_id, wanted, filters)
    else:
        found = await listing.page(call.reader, tenant_id, wanted, filters)
    if not found.items and if_empty is not None:
        await if_empty()
    return answered(call, found)


def asked(call: Call, query: ListQuery, include: frozenset[str] = frozenset()) -> Page:
    """The page that a query asks for. Raises `InvalidInput` for one that is too large."""
    settings = call.ground.settings
    limit = query.limit or settings.page_limit_default
    if limit > settings.page_limit_max:
        raise invalid("limit", f"must be at most {settings.page_limit_max}")
    return Page(limit, query.cursor, query.sort, query.order, include, query.count == "exact")


def answered(call: Call, found: Found) -> Answer:
    """A page as an answer, with its `Link` to the next."""
    return Answer(200, found.body(), headers=_link(call, found))


def _link(call: Call, found: Found) -> dict[str, str]:
    if found.next_cursor is None:
        return {}
    kept = [
        (name, value)
        for name, value in parse_qsl(call.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if name != "cursor"
    ]
    return {"Link": f'<{call.raw_path}?{urlencode([*kept, ("cursor", found.next_cursor)])}>; rel="next"'}
