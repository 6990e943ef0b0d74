"""Conversations over HTTP. A path is no id: it travels in the query or in the body."""

from __future__ import annotations

from starlette.responses import Response

from app.conversations import checkpoint_store, live, reads, store
from app.conversations.errors import (
    AppendUnauthorized,
    BadOffset,
    CheckpointNotFound,
    ConversationConflict,
    ConversationNotFound,
    OffsetBeyondHead,
    SequenceConflict,
    StaleProducer,
    StreamReplaced,
)
from app.conversations.records import read_batch
from app.conversations.schemas import (
    Acquisition,
    Append,
    Appended,
    Batches,
    Checkpoint,
    CheckpointQuery,
    Conversation,
    ConversationList,
    ConversationPage,
    EventsQuery,
    NewCheckpoint,
    NewConversation,
    PathQuery,
    ProducerClaim,
    ReadQuery,
)
from app.conversations.watching import key_of
from app.db.database import Answer
from app.errors import invalid
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.event import documented
from app.http.live import LiveReadersFull
from app.http.paging import page

routes = Routes("conversations")


@routes.put(
    "/v1/conversations",
    scope="conversations:write",
    response_model=Conversation,
    status_code=201,
    errors=(ConversationConflict,),
)
async def create_conversation(call: Call, body: NewConversation) -> Answer:
    """Create a conversation under a path of up to 1,024 bytes.

    The same identity again answers 200 with the conversation as it now is; another identity is 409.
    """
    identity = body.identity
    return await store.create(call.writer, call.tenant_id, body.path, identity.agent_name, identity.instance_id)


@routes.get("/v1/conversations", scope="conversations:read", response_model=ConversationPage)
async def list_conversations(call: Call, query: ConversationList) -> Answer:
    """The conversations of this tenant, the newest first, or those of one agent."""
    return await page(call, store.CONVERSATIONS, query)


@routes.delete("/v1/conversations", scope="conversations:write", status_code=204, errors=(ConversationNotFound,))
async def delete_conversation(call: Call, query: PathQuery) -> Answer:
    """Delete a conversation with its batches and its checkpoint.

    A later conversation under the path has another incarnation. Attachments of the path are deleted by a call of their
    own.
    """
    answer = await store.delete(call.writer, call.tenant_id, query.path)
    call.moved.append(key_of(call.tenant_id, query.path))
    return answer


@routes.post(
    "/v1/conversations/acquire",
    scope="conversations:write",
    batchable=False,
    response_model=ProducerClaim,
    errors=(ConversationNotFound,),
)
async def acquire_conversation(call: Call, body: Acquisition) -> Answer:
    """Become the one producer of a conversation: its epoch grows by one, and the sequence starts at 0.

    Every earlier claim is dead from then on, one of the same producer too.
    """
    return await store.acquire(call.writer, call.tenant_id, body.path, body.producer_id)


@routes.post(
    "/v1/conversations/append",
    scope="conversations:write",
    batchable=False,
    fences_itself=True,
    response_model=Appended,
    errors=(ConversationNotFound, StaleProducer, SequenceConflict, AppendUnauthorized),
)
async def append_records(call: Call, body: Append) -> Answer:
    """Append a batch of records under one offset: all of them, or none.

    The same batch under the same epoch and sequence answers the offset that it already has. Records that carry a
    `submissionId` or an `attemptId` need `submission`, which must own them to the commit: it is running under that
    attempt, or is being settled and the batch is its reserved record. A header `Submission-Attempt` may only repeat it.
    """
    fence, attempt = call.fence, body.submission
    if fence is not None and (
        attempt is None or (fence.submission_id, fence.attempt_id) != (attempt.submission_id, attempt.attempt_id)
    ):
        raise invalid("Submission-Attempt", "must be the same as the body's submission, which is the fence here")
    batch = await read_batch(body.records)
    answer = await store.append(call.writer, call.tenant_id, body.given(), batch)
    call.moved.append(key_of(call.tenant_id, body.path))
    return answer


@routes.get(
    "/v1/conversations/read",
    scope="conversations:read",
    response_model=Batches,
    errors=(BadOffset, OffsetBeyondHead, LiveReadersFull),
)
async def read_conversation(call: Call, query: ReadQuery) -> Answer:
    """The batches after `offset`, the oldest first; or those before `before`, the newest first.

    A page has at most `limit` batches, and ends before one that would make it larger than 16 MiB; it has at least one
    where there is one. Go on with `next_offset` until `up_to_date`. A path without a conversation reads as empty.
    With `live=long-poll` the answer comes as soon as there is a batch, and is empty after `wait_seconds`.
    """
    if query.before is not None:
        if query.offset is not None or query.live is not None:
            raise invalid("before", "must not be given beside offset or live")
        found = await reads.backward(call.reader, call.tenant_id, query.path, query.before, query.limit)
        return Answer(200, found.body())
    after = reads.after_of(query.offset)
    if query.live is None:
        found = await reads.forward(call.reader, call.tenant_id, query.path, after, query.limit)
    elif call.batched:
        raise invalid("live", "must not be given inside a batch")
    else:
        found = await live.page(call, query.path, after, query.limit, query.wait_seconds)
    return Answer(200, found.body())


@routes.get(
    "/v1/conversations/events",
    scope="conversations:read",
    response_class=Response,
    responses=documented(),
    errors=(BadOffset, OffsetBeyondHead, StreamReplaced, LiveReadersFull),
)
async def stream_conversation(call: Call, query: EventsQuery) -> Response:
    """The batches of a conversation as server-sent events, and those to come: one event a batch.

    Its `data` is `{"offset","records"}`, its `id` `<offset>@<incarnation>`. It starts after `Last-Event-ID`, else after
    `offset`, else at the start; under a path without a conversation it waits for one. An id of a conversation that was
    deleted is 410 `stream_replaced`; where that happens later, it is the last event, of type `problem`.
    """
    start = live.start_of(query.path, call.headers.get("last-event-id"), reads.after_of(query.offset))
    return call.ground.live.stream(
        call, key_of(call.tenant_id, query.path), lambda position: live.events(call, position), start
    )


@routes.get(
    "/v1/conversations/meta",
    scope="conversations:read",
    response_model=Conversation,
    errors=(ConversationNotFound,),
)
async def get_conversation(call: Call, query: PathQuery) -> Answer:
    """A conversation without its batches: whose it is, its head, and the claim of its producer."""
    return await store.get(call.reader, call.tenant_id, query.path)


@routes.put(
    "/v1/conversations/checkpoint",
    scope="conversations:write",
    response_model=Checkpoint,
    errors=(BadOffset,),
)
async def put_conversation_checkpoint(call: Call, query: PathQuery, body: NewCheckpoint) -> Answer:
    """Keep the folded state of a conversation up to an offset; the last write stays.

    The conversation need not exist. `data` is kept byte for byte.
    """
    return await checkpoint_store.put(
        call.writer, call.tenant_id, query.path, body.given(), call.if_match, may_create=call.may_create
    )


@routes.get(
    "/v1/conversations/checkpoint",
    scope="conversations:read",
    response_model=Checkpoint,
    errors=(BadOffset, CheckpointNotFound),
)
async def get_conversation_checkpoint(call: Call, query: CheckpointQuery) -> Answer:
    """The checkpoint of a path; with `at_or_before`, 404 where it is of a later offset."""
    return await checkpoint_store.get(call.reader, call.tenant_id, query.path, query.at_or_before)
