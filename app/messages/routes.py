"""Messages over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.including import Including
from app.http.paging import IncludeQuery, page
from app.invocations import store as invocations
from app.invocations.errors import InvocationNotFound
from app.messages import store
from app.messages.errors import MessageConflict, MessageNotFound
from app.messages.schemas import Message, MessageChange, MessageList, MessagePage, Messages, NewMessage, NewMessages

routes = Routes("messages")
INCLUDING = Including(store.MESSAGE, "messages AS t", ("invocation_id",))


@routes.post(
    "/v1/invocations/{invocation_id}/messages",
    scope="messages:write",
    response_model=Message | Messages,
    status_code=201,
    including=INCLUDING,
    errors=(InvocationNotFound, MessageConflict),
)
async def record_messages(
    call: Call, invocation_id: str, _query: IncludeQuery, body: NewMessage | NewMessages
) -> Answer:
    """Record one message, or up to 1,000 as `{"items": [...]}`: all of them, or none.

    An id that was created with the same fields is a replay and is answered as it now is; 201 if any message is new,
    else 200. One message is answered itself, items as `{"items": [...]}` in the order sent.
    """
    if isinstance(body, NewMessages):
        messages = [message.given() for message in body.items]
        return await store.record(call.writer, call.tenant_id, invocation_id, messages)
    return await store.record(call.writer, call.tenant_id, invocation_id, [body.given()], single=True)


@routes.get(
    "/v1/invocations/{invocation_id}/messages",
    scope="messages:read",
    response_model=MessagePage,
    errors=(InvocationNotFound,),
)
async def list_messages(call: Call, invocation_id: str, query: MessageList) -> Answer:
    """The messages of an invocation in the order `(seq, id)`.

    `after_seq` skips to a number; it is no lossless tail, since a message with a smaller number may commit later.
    """
    return await page(
        call,
        store.MESSAGES,
        query,
        {**query.filters(), "invocation_id": invocation_id},
        if_empty=lambda: invocations.require(call.reader, call.tenant_id, invocation_id),
    )


@routes.get(
    "/v1/invocations/{invocation_id}/messages/{message_id}",
    scope="messages:read",
    response_model=Message,
    errors=(MessageNotFound,),
)
async def get_message(call: Call, invocation_id: str, message_id: str, query: IncludeQuery) -> Answer:
    """A message with its payload, byte for byte."""
    include = store.MESSAGE.shown(query.include)
    return await store.get(call.reader, call.tenant_id, invocation_id, message_id, include)


@routes.patch(
    "/v1/invocations/{invocation_id}/messages/{message_id}",
    scope="messages:write",
    response_model=Message,
    including=INCLUDING,
    errors=(MessageNotFound,),
)
async def patch_message(
    call: Call, invocation_id: str, message_id: str, _query: IncludeQuery, body: MessageChange
) -> Answer:
    """Say which node invocation read the message; nothing else of a message changes."""
    return await store.patch(
        call.writer, call.tenant_id, invocation_id, message_id, body.target_node_invocation_id, call.if_match
    )
