"""Named leases over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from app.db.database import Answer
from app.errors import invalid
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.live import LiveReadersFull
from app.http.paging import page
from app.leases import store
from app.leases.errors import LeaseHeld, LeaseLost, LeaseNotFound
from app.leases.liveness import Liveness
from app.leases.schemas import Acquisition, Holding, Lease, LeaseList, LeasePage
from app.leases.watching import key_of

routes = Routes("leases")


def liveness_of(call: Call) -> Liveness:
    """Where the signs of life are kept."""
    return Liveness(call.ground.cache)


def _afterwards(call: Call, tell: Callable[[str, str, bytes], Awaitable[None]], name: str, answer: Answer) -> None:
    """Tell where the signs of life are kept, once what was answered is committed."""
    call.afterwards.append(partial(tell, call.tenant_id, name, answer.body or b""))


@routes.post(
    "/v1/leases/{name}/acquire", scope="leases:write", response_model=Lease, errors=(LeaseHeld, LiveReadersFull)
)
async def acquire_lease(call: Call, name: str, body: Acquisition) -> Answer:
    """Take the lease, if nobody holds it: the answer's `fencing_token` is greater than every one before.

    Renew it well within `lease_seconds`, and send `Lease: <name>;<fencing_token>` with every write that it protects.
    Who holds it already is answered the same token and holds it for `lease_seconds` from now on, so an acquisition
    whose answer was lost may be repeated; a process that starts anew is another holder, and needs another name. Where
    somebody else holds it the answer is 409 `lease_held` with `holder`, `fencing_token` and `expires_at`, after up to
    `wait_seconds` in which it is tried again as soon as it is released or lapses.
    """
    if body.wait_seconds and call.batched:
        raise invalid("/wait_seconds", "must be 0 inside a batch")
    refused: list[LeaseHeld] = []

    async def take(last: bool) -> Answer | None:
        try:
            return await store.acquire(
                call.writer, liveness_of(call), call.tenant_id, name, body.holder, body.lease_seconds
            )
        except LeaseHeld as refusal:
            if last:
                raise
            refused[:] = [refusal]
            return None

    taken = await call.ground.live.first(call, key_of(call.tenant_id, name), body.wait_seconds, take)
    if taken is None:
        # The client has gone, or the process ends: what was found last stands.
        raise refused[0]
    _afterwards(call, liveness_of(call).begin, name, taken)
    return taken


@routes.post("/v1/leases/{name}/renew", scope="leases:write", response_model=Lease, errors=(LeaseNotFound, LeaseLost))
async def renew_lease(call: Call, name: str, body: Holding) -> Answer:
    """Hold the lease for its length from now on; one that has lapsed too, as long as nobody took it.

    409 `lease_lost`, with `current_token` and `holder`, tells that it is over: stop what it protects.
    """
    apart = not call.batched and call.claim is None and not call.held
    return await store.renew(
        call.writer, liveness_of(call), call.tenant_id, name, body.holder, body.fencing_token, apart=apart
    )


@routes.post("/v1/leases/{name}/release", scope="leases:write", response_model=Lease, errors=(LeaseNotFound, LeaseLost))
async def release_lease(call: Call, name: str, body: Holding) -> Answer:
    """Give the lease up before it lapses. Only its holder can, under its token; repeating it answers the same.

    What is being written under the token is committed first; what comes after is refused.
    """
    answer = await store.release(call.writer, call.tenant_id, name, body.holder, body.fencing_token)
    _afterwards(call, liveness_of(call).end, name, answer)
    call.moved.append(key_of(call.tenant_id, name))
    return answer


@routes.get("/v1/leases/{name}", scope="leases:read", response_model=Lease, errors=(LeaseNotFound,))
async def get_lease(call: Call, name: str) -> Answer:
    """A lease: who holds it, or held it last if `expires_at` has passed; nobody if it was released."""
    return await store.get(call.reader, liveness_of(call), call.tenant_id, name)


@routes.get("/v1/leases", scope="leases:read", response_model=LeasePage)
async def list_leases(call: Call, query: LeaseList) -> Answer:
    """The leases of this tenant, by name."""
    found = await page(call, store.LEASES, query)
    assert found.body is not None
    return replace(found, body=await store.with_renewals(liveness_of(call), call.tenant_id, found.body))
