"""One effect for each Idempotency-Key: claimed and kept in the effect's own transaction, replayed afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from starlette.responses import Response

from app.db.database import Answer, Reader, Transaction, Writer
from app.db.fences import Fence, Fences
from app.db.integrity import TRIES, KeyKept, is_retryable, pause_seconds
from app.db.leased import HOLD_LEASE
from app.db.sql import Statement
from app.errors import AppError, IdempotencyInProgress, IdempotencyKeyReused, InvalidInput
from app.http.call import Call

WAIT_SECONDS = 2.0
REPLAYED = "Idempotency-Replayed"

_CLAIM = Statement("SELECT cairn_claim_key(:tenant_id, :key) AS claimed")
_HOLD = Statement("SELECT cairn_hold_attempt(:tenant_id, :submission_id, :attempt_id) AS held")
_LOCK_SESSION = Statement("SELECT cairn_lock_session(:tenant_id, :submission_id) AS session")
_KEEP = Statement(
    "INSERT INTO idempotency_keys (tenant_id, key, fingerprint, status, etag, body)"
    " VALUES (:tenant_id, :key, :fingerprint, :status, :etag, :body)"
)
_FIND = Statement(
    "SELECT fingerprint, status, etag, body FROM idempotency_keys WHERE tenant_id = :tenant_id AND key = :key"
)


async def once(call: Call, effect: Callable[[], Awaitable[Answer | Response]]) -> Answer | Response:
    """Run the effect, or replay its kept answer; wait at most two seconds for a twin that is still running.

    Refusals are not kept. But where a refusal may be the echo of our own earlier success, that success is replayed.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    pause = 0.02
    while True:
        try:
            return await effect()
        except IdempotencyInProgress:
            if time.monotonic() + pause > deadline:
                raise
        except AppError as refusal:
            kept = await _replayed(call)
            if kept is not None:
                return kept
            if not isinstance(refusal, KeyKept) or time.monotonic() > deadline:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.2)


async def _replayed(call: Call) -> Answer | None:
    wanted = call.claim
    assert wanted is not None
    reader: Reader = call.ground.database
    kept = await reader.row(_FIND, tenant_id=call.claim_tenant, key=wanted.key)
    if kept is None:
        return None
    if bytes(kept["fingerprint"]) != wanted.fingerprint:
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request; use a new one.")
    return Answer(kept["status"], kept["body"], kept["etag"], {REPLAYED: "true"})


async def in_transaction(
    call: Call, effect: Callable[[], Awaitable[Answer | Response]], *, snapshot: bool = False
) -> Answer | Response:
    """Run the effect in one transaction, with the claim of its key and the kept answer, under the attempt and the lease
    that the call names; tried again where others were in the way. Raises `KeyKept`, `IdempotencyInProgress`,
    `StaleAttempt`, `StaleLease`, and what the effect raises.
    """
    for attempt in range(TRIES):
        try:
            async with call.ground.database.writing(snapshot=snapshot) as transaction:
                return await _kept(call, transaction, effect)
        except AppError as refusal:
            cause = refusal.__cause__
            if attempt == TRIES - 1 or cause is None or not is_retryable(cause):
                raise
        await asyncio.sleep(pause_seconds(attempt))
    raise AssertionError("unreachable")


async def in_turn(call: Call, effect: Callable[[Writer], Awaitable[Answer]]) -> Answer:
    """What `in_transaction` does, for a call that is one statement as a rule and was always overtaken."""
    answer = await in_transaction(call, lambda: effect(call.writer))
    assert isinstance(answer, Answer)
    return answer


async def _kept(
    call: Call, transaction: Transaction, effect: Callable[[], Awaitable[Answer | Response]]
) -> Answer | Response:
    call.writer = call.reader = transaction
    if call.claim is None:
        await _hold_first(call, transaction)
        return await effect()
    key = {"tenant_id": call.claim_tenant, "key": call.claim.key}
    await transaction.row(_CLAIM, **key)
    await _hold_first(call, transaction)
    answer = await effect()
    if not isinstance(answer, Answer):
        raise InvalidInput("This route takes no Idempotency-Key.")
    kept = answer.body if answer.kept is None else answer.kept
    await transaction.row(
        _KEEP, **key, fingerprint=call.claim.fingerprint, status=answer.status, etag=answer.etag, body=kept
    )
    return answer


async def _hold_first(call: Call, transaction: Transaction) -> None:
    attempt = call.held.attempt
    if attempt is not None and call.session_first:
        await transaction.row(_LOCK_SESSION, tenant_id=call.claim_tenant, submission_id=attempt.submission_id)
    await hold(call, transaction, call.held)


async def hold(call: Call, writer: Reader, fences: Fences) -> None:
    """Hold an attempt and a lease to the commit of the writer's transaction.

    Raises `StaleAttempt` where the attempt owns no submission, `StaleLease` where the token does not hold the lease.
    """
    tenant_id, attempt, lease = call.claim_tenant, fences.attempt, fences.lease
    if attempt is not None:
        await writer.row(_HOLD, tenant_id=tenant_id, submission_id=attempt.submission_id, attempt_id=attempt.attempt_id)
    if lease is not None:
        await writer.row(HOLD_LEASE, tenant_id=tenant_id, name=lease.name, token=lease.token)


async def owned_by(call: Call, own: Fence) -> Writer:
    """Where a call writes that looks itself whether an attempt owns its submission, at its own place in the order of
    locks; another attempt that its header names is held as for every write. For routes with `fences_itself`.

    Raises `StaleAttempt` within a batch; else what is written raises it.
    """
    fence = call.fence
    if fence is None or fence in (own, call.held.attempt):
        return call.writer
    if call.batched:
        await hold(call, call.writer, Fences(fence))
    else:
        call.held = Fences(fence, call.held.lease)
        call.writer = call.ground.database.once(call.claim_tenant, call.claim, call.held)
    return call.writer
