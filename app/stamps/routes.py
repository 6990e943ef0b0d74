"""Format stamps over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.stamps import store
from app.stamps.errors import FormatUnsupported, StampNotFound, UnversionedStore
from app.stamps.schemas import NewValue, Opening, Stamp, StampList, StampPage

routes = Routes("format stamps")


@routes.post(
    "/v1/format-stamps/open",
    scope="format-stamps:write",
    response_model=Stamp,
    status_code=201,
    errors=(FormatUnsupported, UnversionedStore),
)
async def open_format_stamp(call: Call, body: Opening) -> Answer:
    """Say which format the caller reads, before it reads: whoever gets an answer may go on.

    The stamp is there with this value: 200. It is not, but one that `adopt` lists with its value is: that one becomes
    this one, 201. There is no stamp and no submission, conversation or attachment: it is made, 201. Anything else is
    refused and left as it is: another value is `format_unsupported`, data without a stamp `unversioned_store`.
    """
    return await store.open_store(call.writer, call.tenant_id, body.name, body.value, body.adopt)


@routes.get("/v1/format-stamps", scope="format-stamps:read", response_model=StampPage)
async def list_format_stamps(call: Call, query: StampList) -> Answer:
    """The format stamps of this tenant, by name."""
    return await page(call, store.STAMPS, query)


@routes.put("/v1/format-stamps/{name}", scope="format-stamps:write", response_model=Stamp, status_code=201)
async def put_format_stamp(call: Call, name: str, body: NewValue) -> Answer:
    """Set a stamp, whatever data there is: for those who have just converted it."""
    return await store.put(call.writer, call.tenant_id, name, body.value, call.if_match, may_create=call.may_create)


@routes.get("/v1/format-stamps/{name}", scope="format-stamps:read", response_model=Stamp, errors=(StampNotFound,))
async def get_format_stamp(call: Call, name: str) -> Answer:
    """A format stamp."""
    return await store.get(call.reader, call.tenant_id, name)


@routes.delete("/v1/format-stamps/{name}", scope="format-stamps:write", status_code=204, errors=(StampNotFound,))
async def delete_format_stamp(call: Call, name: str) -> Answer:
    """Delete a format stamp. The data stays; without a stamp it can be opened only after one is put."""
    return await store.delete(call.writer, call.tenant_id, name, call.if_match)
