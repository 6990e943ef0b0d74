"""Turns an error of PostgreSQL into one that the caller can act on: by constraint name and SQLSTATE, never by text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import asyncpg

from app.errors import (
    AppError,
    Conflict,
    IdempotencyInProgress,
    InvalidInput,
    MalformedRequest,
    PersistenceError,
    StaleAttempt,
    StaleLease,
    Unavailable,
    changed,
)

# Stands for the foreign keys of all tables that have one to the tenants.
OF_A_TENANT = "fk_*_tenant_id"
_IS_OF_A_TENANT = re.compile(r"fk_\w+_tenant_id").fullmatch
_by_constraint: dict[str, Callable[[], AppError]] = {}
_lost_races: set[str] = set()

DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
# How often a transaction is tried that others were in the way of.
TRIES = 6
RETRYABLE = frozenset({"40001", "40P01"})
KEY_IN_PROGRESS = "CA001"
KEY_KEPT = "CA002"
INCOMPLETE = "CA003"
TAKEN = "CA004"
STALE = "CA006"
ANOTHER_REVISION = "CA007"
STALE_LEASE = "CA008"
_UNSTORABLE = frozenset(
    {"22000", "22P05", "22P02", "22021", "22003", "22007", "22008", "22009", "22023", "22032", "54000"}
)
_SESSION_ENDED = frozenset({"57P01", "57P02", "57P03", "25P03"})
IN_THE_WAY = "Other writers were in the way; nothing was stored. Try again."
_AWAY = "The database went away; whether a write happened is not known. Repeat it under the same Idempotency-Key."


class KeyKept(AppError):
    """The Idempotency-Key already has an answer; the HTTP layer replays it."""

    status, code = 409, "idempotency_key_kept"


class IdsTaken(Conflict):
    """Rows under these ids were created with other fields; nothing was stored. The store names what they are."""

    code = "ids_taken"

    def __init__(self, ids: list[str]) -> None:
        super().__init__("The ids belong to other rows.", ids=ids)
        self.ids = ids


class NotNew(AppError):
    """A row that was taken for new is there; nothing was stored, and the statement that looks first is to be run."""

    status, code = 409, "not_new"


def constraint(name: str, refusal: Callable[[], AppError]) -> None:
    """Say what a violation of this constraint means to the caller. Constraint names are interface."""
    _by_constraint[name] = refusal


def explain(error: BaseException) -> AppError:
    """The refusal that an error of the driver stands for; never with SQL, a path or a stack in it."""
    if isinstance(error, asyncpg.PostgresError):
        return _explain_state(error)
    if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
        # The driver could not write an argument in its type's binary form: a value beyond the type.
        return InvalidInput("A value cannot be stored as the type that its field has.", errors=[])
    if is_lost(error) or isinstance(error, TimeoutError):
        return Unavailable(_AWAY)
    return PersistenceError("The service failed; nothing was stored.")


def _explain_detail(state: str, detail: str | None) -> AppError | None:
    """The refusal of the service's own functions that say in their detail what the caller can act on."""
    if state == TAKEN:
        return IdsTaken(json.loads(detail or "[]"))
    if state == STALE:
        return StaleAttempt(
            "The attempt does not own the submission; nothing was stored.", **json.loads(detail or "{}")
        )
    if state == STALE_LEASE:
        return StaleLease("The token does not hold the lease; nothing was stored.", **json.loads(detail or "{}"))
    if state == ANOTHER_REVISION:
        return changed("resource", int(detail or 0))
    return None


def _explain_state(error: asyncpg.PostgresError) -> AppError:
    state = error.sqlstate or ""
    name = error.constraint_name or ""
    refusal = _by_constraint.get(OF_A_TENANT if _IS_OF_A_TENANT(name) else name)
    if refusal is not None:
        return refusal()
    told = _explain_detail(state, error.detail)
    if told is not None:
        return told
    if state == KEY_IN_PROGRESS:
        return IdempotencyInProgress("A request with this Idempotency-Key is still running; try again.")
    if state == KEY_KEPT or error.constraint_name == "pk_idempotency_keys":
        return KeyKept("The answer to this Idempotency-Key is kept.")
    if state in _UNSTORABLE:
        return InvalidInput("A value cannot be stored as the type that its field has.", errors=[])
    if state == "54001":
        return MalformedRequest("The body nests too deep.")
    if state in RETRYABLE or state == INCOMPLETE:
        return Unavailable(IN_THE_WAY)
    if state == "55P03":
        return Unavailable("Another writer holds the row for too long; nothing was stored. Try again.")
    if state == "57014":
        return Unavailable("The database took too long and stopped; nothing was stored.", retry_after_seconds=5)
    if is_lost(error):
        return Unavailable(_AWAY)
    if state[:2] in ("53", "57"):
        return Unavailable("The database is full or busy; nothing was stored. Try again.", retry_after_seconds=2)
    return PersistenceError("The service failed; nothing was stored.")


def lost_race(name: str) -> None:
    """Say that who violates this constraint was overtaken: tried again, it sees who was faster."""
    _lost_races.add(name)
    constraint(name, lambda: Unavailable(IN_THE_WAY))


def is_retryable(error: BaseException) -> bool:
    """Whether the whole transaction may be tried again: a deadlock, a serialization failure, a lost insert race."""
    return isinstance(error, asyncpg.PostgresError) and (
        error.sqlstate in RETRYABLE or error.sqlstate == INCOMPLETE or error.constraint_name in _lost_races
    )


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone: the database ended the session, or the network did."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "")[:2] == "08" or error.sqlstate in _SESSION_ENDED
    if isinstance(error, asyncpg.InternalClientError):
        # What the driver raises when it meets the server's farewell in place of its answer.
        return True
    return isinstance(error, asyncpg.InterfaceError | OSError) and not isinstance(error, ValueError)


def pause_seconds(attempt: int) -> float:
    """How long to step aside before the next try: at random, so that those who met once do not meet again."""
    return random.uniform(0, 0.05 * 2**attempt)  # noqa: S311 - spread, not secrecy
