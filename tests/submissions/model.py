"""A small model of the queue: what each call answers and changes, without a database, a clock or another caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

SET = "set"
"""An instant that is there; which one is learned when it is first seen, and holds from then on."""
STAMPS = (
    "canonical_ready_at",
    "timeout_at",
    "input_applied_at",
    "abort_requested_at",
    "recovery_requested_at",
    "started_at",
    "settled_at",
    "lease_expires_at",
    "not_before",
)
NOT_QUEUED = {
    "running": "already_running",
    "terminalizing": "already_terminalizing",
    "joining": "already_joined",
    "joined": "already_joined",
    "settled": "already_settled",
}


class Refused(Exception):
    """The refusal of a call: its code, and where the submission stands that it is about."""

    def __init__(self, code: str, about: Sub) -> None:
        super().__init__(code)
        self.code, self.about = code, about


def decided(call: Callable[[], object]) -> tuple[object, Refused | None]:
    """What the model's part of a call gives, or its refusal."""
    try:
        return call(), None
    except Refused as refused:
        return None, refused


@dataclass
class Sub:
    """A submission: the fields that are shown, and the record that is reserved."""

    id: str
    session_key: str
    agent: str
    max_attempts: int
    on_lapse: str
    priority: int
    status: str = "queued"
    attempt_id: str | None = None
    attempt_count: int = 0
    owner_id: str | None = None
    joined_into: str | None = None
    outcome: str | None = None
    error: str | None = None
    record: tuple[str, str, str | None] | None = None
    lapsed: bool = False
    given: dict[str, Any] = field(default_factory=dict)
    stamps: dict[str, str | None] = field(default_factory=lambda: dict.fromkeys(STAMPS))

    def shown(self) -> dict[str, Any]:
        """What an answer shows, an instant that is not known yet as `SET`."""
        names = ("id", "session_key", "agent", "max_attempts", "on_lapse", "priority", "status", "attempt_id",
                 "attempt_count", "owner_id", "joined_into", "outcome", "error")  # fmt: skip
        return {**{name: getattr(self, name) for name in names}, **self.stamps}

    def learn(self, answer: dict[str, Any]) -> None:
        """Compare an answer with what is expected, and keep the instants that it is the first to show."""
        expected = self.shown()
        seen = {name: answer[name] for name in expected}
        for name in STAMPS:
            if expected[name] == SET and seen[name] is not None:
                expected[name] = self.stamps[name] = seen[name]
        assert seen == expected

    def owned(self, attempt_id: str) -> None:
        """Refuse what only the attempt allows that the submission runs under."""
        if self.status == "settled":
            raise Refused("already_settled", self)
        if self.attempt_id != attempt_id or self.status not in ("running", "terminalizing"):
            raise Refused("stale_attempt", self)
        if self.status == "terminalizing":
            raise Refused("already_terminalizing", self)

    def queued(self) -> None:
        """Refuse what only a queued submission allows."""
        if self.status in NOT_QUEUED:
            raise Refused(NOT_QUEUED[self.status], self)


class Queue:
    """The submissions of one tenant, in the order of their admission. Each call changes them, or raises `Refused`."""

    def __init__(self) -> None:
        self.subs: dict[str, Sub] = {}
        self.dead: list[str] = []
        self.removed: set[str] = set()

    def session(self, session_key: str) -> list[Sub]:
        """What is not settled of a session."""
        return [sub for sub in self.subs.values() if sub.session_key == session_key and sub.status != "settled"]

    def is_head(self, sub: Sub) -> bool:
        """Whether it is the oldest of its session that is not settled."""
        return self.session(sub.session_key)[:1] == [sub]

    def runnable(self) -> list[Sub]:
        """What can be claimed, in the order in which it is given out."""
        found = [
            sub for sub in self.subs.values()
            if sub.status == "queued" and sub.stamps["canonical_ready_at"] and self.is_head(sub)
            and sub.stamps["not_before"] is None
        ]  # fmt: skip
        return sorted(found, key=lambda sub: -sub.priority)

    def admit(self, sub: Sub, *, ready: bool) -> None:
        """A new one."""
        sub.stamps["canonical_ready_at"] = SET if ready else None
        self.subs[sub.id] = sub

    def ready(self, sub: Sub) -> None:
        """Marked ready; the first instant stays."""
        sub.queued()
        sub.stamps["canonical_ready_at"] = sub.stamps["canonical_ready_at"] or SET

    def claim(self, sub: Sub, attempt_id: str, owner_id: str) -> None:
        """Claimed under an attempt."""
        sub.queued()
        for holds, code in (
            (sub.stamps["canonical_ready_at"] is not None, "not_ready"),
            (self.is_head(sub), "not_head_of_session"),
            (sub.stamps["not_before"] is None, "not_due"),
        ):
            if not holds:
                raise Refused(code, sub)
        sub.status, sub.attempt_id, sub.owner_id, sub.lapsed = "running", attempt_id, owner_id, False
        sub.attempt_count += 1
        sub.stamps |= {
            "started_at": SET, "lease_expires_at": SET, "timeout_at": sub.stamps["timeout_at"] or SET,
        }  # fmt: skip

    def apply_input(self, sub: Sub, attempt_id: str, max_attempts: int | None) -> None:
        """Stamped once, with what it says."""
        sub.owned(attempt_id)
        if sub.stamps["input_applied_at"] is None:
            sub.stamps["input_applied_at"] = SET
            sub.max_attempts = max_attempts or sub.max_attempts

    def request_recovery(self, sub: Sub, attempt_id: str) -> None:
        """Stamped once."""
        sub.owned(attempt_id)
        sub.stamps["recovery_requested_at"] = sub.stamps["recovery_requested_at"] or SET

    def abort(self, session_key: str) -> list[str]:
        """Everything that is not being settled is asked to stop."""
        asked = [sub for sub in self.session(session_key) if sub.status != "terminalizing"]
        for sub in asked:
            sub.stamps["abort_requested_at"] = sub.stamps["abort_requested_at"] or SET
        return [sub.id for sub in asked]

    def replace(self, sub: Sub, attempt_id: str, next_attempt_id: str, owner_id: str | None) -> None:
        """Another attempt goes on."""
        sub.owned(attempt_id)
        sub.attempt_id, sub.owner_id = next_attempt_id, owner_id or sub.owner_id
        sub.attempt_count += 1
        sub.stamps |= {"started_at": SET, "recovery_requested_at": None}

    def requeue(self, sub: Sub, attempt_id: str, why: str | None, *, later: bool) -> None:
        """Back in the queue, or dead."""
        sub.owned(attempt_id)
        if sub.on_lapse == "requeue" and sub.attempt_count >= sub.max_attempts:
            said = (why or "").rstrip() or "The attempt was given back."
            text = f"{said if said[-1] in '.!?…' else said + '.'} No attempt is left of {sub.max_attempts}."
            self.settle(sub, "failed", text)
            self.dead.append(sub.id)
            return
        sub.status, sub.attempt_id, sub.owner_id = "queued", None, None
        cleared = ("lease_expires_at", "input_applied_at", "started_at", "recovery_requested_at")
        sub.stamps |= {**dict.fromkeys(cleared), **({"not_before": SET} if later else {})}

    def renew(self, name: str, owner_id: str) -> bool:
        """Whether the owner's lease is renewed."""
        sub = self.subs.get(name)
        if sub is None or (sub.status, sub.owner_id) != ("running", owner_id):
            return False
        sub.lapsed, sub.stamps["lease_expires_at"] = False, SET
        return True

    def lapse(self) -> None:
        """Leases have lapsed; what is held for its owner stays."""
        for sub in self.subs.values():
            if sub.lapsed and sub.on_lapse == "requeue" and sub.attempt_id:
                why = f"The lease of attempt {sub.attempt_count} lapsed without an answer."
                self.requeue(sub, sub.attempt_id, why, later=True)

    def view(self, view: str) -> list[Sub]:
        """A list, by sequence."""
        shown: dict[str, Callable[[Sub], object]] = {
            "runnable": lambda sub: sub in self.runnable(),
            "unready": lambda sub: sub.status == "queued" and sub.stamps["canonical_ready_at"] is None,
            "running": lambda sub: sub.status == "running",
            "expired": lambda sub: sub.status == "running" and sub.lapsed,
            "unsettled": lambda sub: sub.status != "settled",
        }
        return [sub for sub in self.subs.values() if shown[view](sub)]

    def joins(self, name: str) -> list[Sub]:
        """What joins a host, or has joined it."""
        return [sub for sub in self.subs.values() if sub.joined_into == name and sub.status in ("joining", "joined")]

    def settle(self, sub: Sub, outcome: str, error: str | None) -> None:
        """Settled, and what hangs on it."""
        sub.status, sub.outcome, sub.error, sub.stamps["settled_at"] = "settled", outcome, error, SET
        for child in self.subs.values():
            if child.joined_into == sub.id and child.status == "joined":
                child.status, child.outcome, child.error, child.stamps["settled_at"] = "settled", outcome, error, SET
            elif child.joined_into == sub.id and child.status == "joining":
                child.status, child.joined_into = "queued", None

    def complete(self, sub: Sub, attempt_id: str) -> None:
        """Settled as completed."""
        sub.owned(attempt_id)
        self.settle(sub, "completed", None)

    def fail(self, sub: Sub, attempt_id: str, error: str) -> None:
        """Settled as failed."""
        sub.owned(attempt_id)
        self.settle(sub, "failed", error)

    def settle_queued(self, sub: Sub, outcome: str, error: str) -> None:
        """Settled without an attempt."""
        sub.queued()
        self.settle(sub, outcome, error)

    def reserve(self, sub: Sub, attempt_id: str, record: tuple[str, str, str | None]) -> None:
        """The record is reserved, once."""
        if sub.status == "terminalizing" and sub.attempt_id == attempt_id:
            if sub.record != record:
                raise Refused("settlement_conflict", sub)
            return
        (self.subs[sub.joined_into] if sub.status == "joined" and sub.joined_into else sub).owned(attempt_id)
        sub.status, sub.attempt_id, sub.record = "terminalizing", attempt_id, record
        sub.stamps["started_at"] = sub.stamps["started_at"] or SET

    def finalize(self, sub: Sub, attempt_id: str, record_id: str, message: str | None) -> None:
        """Settled by its record."""
        try:
            sub.owned(attempt_id)
        except Refused as refused:
            if refused.code != "already_terminalizing":
                raise
        else:
            raise Refused("not_terminalizing", sub)
        assert sub.record is not None
        reserved_id, outcome, error = sub.record
        if reserved_id != record_id:
            raise Refused("settlement_conflict", sub)
        told = message or error or f"The submission {outcome}."
        self.settle(sub, outcome, None if outcome == "completed" else told)

    def claim_joins(self, host: Sub, attempt_id: str, agent: str) -> list[Sub]:
        """What queues behind the host, up to the first that may not join."""
        host.owned(attempt_id)
        found = []
        queued = [sub for sub in self.session(host.session_key) if sub.status == "queued"]
        for sub in queued:
            stamps = sub.stamps
            if (
                stamps["canonical_ready_at"] is None
                or stamps["abort_requested_at"]
                or stamps["not_before"]
                or sub.agent != agent
            ):
                break
            sub.status, sub.joined_into = "joining", host.id
            found.append(sub)
        return found

    def end_join(self, host: Sub, child: Sub, attempt_id: str, *, final: bool) -> None:
        """Joined, or given back."""
        if (child.status, child.joined_into) != ("joining", host.id):
            raise Refused("not_joining", child)
        host.owned(attempt_id)
        if final:
            child.status, child.stamps["input_applied_at"] = "joined", SET
        else:
            child.status, child.joined_into = "queued", None
