"""Random calls, legal and not, answer what a small model of the queue says, and its invariants hold after each."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import httpx
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from app.submissions.claiming import lapse
from tests.conftest import new_tenant, running, settings_for
from tests.submissions.invariants import broken
from tests.submissions.model import Queue, Sub, decided

Pick = tuple[bool, int]
STEPS_MIN = 2000
# What is not only never answered wrongly, but answered.
REFUSALS = {
    "submission_not_found", "submission_conflict", "not_ready", "not_head_of_session", "not_due", "already_running",
    "already_terminalizing", "already_joined", "already_settled", "stale_attempt", "not_terminalizing",
    "settlement_conflict", "not_joining",
}  # fmt: skip
PROFILE = settings(
    max_examples=50, stateful_step_count=50, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip

IDS = "abcdefghijklmnop"
# As a rule one of those that the call is for; else whichever.
PICK = st.tuples(st.sampled_from([True, True, True, False]), st.integers(0, len(IDS) - 1))
SESSIONS = st.sampled_from(["s", "t"])
AGENTS = st.sampled_from(["x", "x", "x", "y"])
ATTEMPTS = st.sampled_from(["1", "2", "3"])
# The attempt that the submission runs under, as a rule; else whichever.
OWN = st.one_of(st.none(), st.none(), st.none(), ATTEMPTS)
OUTCOMES = st.sampled_from(["completed", "failed", "aborted"])
ERRORS = st.sampled_from([None, "It broke.", "a\u2028b"])
RECORDS = st.sampled_from(["r", "r", "r", "q"])
SHORT = st.sampled_from([None, 1, 2, 5])


class Ground:
    """A service on a database of this test alone, driven one call after the other."""

    def __init__(self, runner: asyncio.Runner, clone: Callable[[], Awaitable[str]]) -> None:
        self.runner, self.stack = runner, AsyncExitStack()
        # How often each call had each outcome.
        self.seen: Counter[tuple[str, str]] = Counter()

        async def start() -> tuple[Any, asyncpg.Connection]:
            service = await self.stack.enter_async_context(running(settings_for(await clone())))
            return service, await asyncpg.connect(service.ground.database.url)

        self.service, self.connection = self.run(start())

    def run(self, awaited: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine gives."""
        return self.runner.run(awaited)

    async def close(self) -> None:
        """End the service."""
        await self.connection.close()
        await self.stack.aclose()


def machine(ground: Ground) -> type[RuleBasedStateMachine]:
    """The machine on a ground; each run is a tenant of its own."""

    class Machine(RuleBasedStateMachine):
        """The calls about submissions."""

        def __init__(self) -> None:
            super().__init__()
            self.client: httpx.AsyncClient = ground.run(new_tenant(ground.service))
            self.tenant_id = self.client.headers["x-test-tenant"]
            self.queue = Queue()

        def teardown(self) -> None:
            ground.run(self.client.aclose())

        def post(self, path: str, **body: Any) -> httpx.Response:
            answer: httpx.Response = ground.run(self.client.post(f"/v1/submissions{path}", json=body))
            call = "/".join(part for part in path.split("/") if len(part) > 1)
            ground.seen[call, answer.json().get("code", "done")] += 1
            return answer

        def called(
            self, name: str, call: str, expected: Callable[[Sub], object], **body: Any
        ) -> tuple[httpx.Response, object]:
            """The call and the model's part of it; both refuse, or neither does."""
            answer = self.post(f"/{name}/{call}", **{k: v for k, v in body.items() if v is not None})
            sub = self.queue.subs.get(name)
            if sub is None:
                assert (answer.status_code, answer.json()["code"]) == (404, "submission_not_found")
                return answer, None
            result, refused = decided(lambda: expected(sub))
            if refused is not None:
                told = answer.json()
                assert (answer.status_code, told["code"]) == (409, refused.code), answer.text
                assert told["current_status"] == refused.about.status
                if refused.code == "stale_attempt":
                    assert told["attempt_id"] == refused.about.attempt_id
                    assert told["submission_id"] == refused.about.id
                return answer, None
            assert answer.status_code == 200, answer.text
            return answer, result

        def shows(self, name: str, call: str, expected: Callable[[Sub], object], **body: Any) -> None:
            """The same for a call that answers its submission."""
            answer, _ = self.called(name, call, expected, **body)
            if answer.status_code == 200:
                self.queue.subs[name].learn(answer.json())

        def target(self, pick: Pick, *statuses: str) -> str:
            likely, number = pick
            found = [sub.id for sub in self.queue.subs.values() if sub.status in statuses] if likely else []
            return found[number % len(found)] if found else IDS[number % (len(self.queue.subs) + 1) % len(IDS)]

        def attempt(self, name: str, given: str | None) -> str:
            sub = self.queue.subs.get(name)
            return given or (sub.attempt_id if sub is not None and sub.attempt_id else "1")

        @initialize(ready=st.booleans())
        def work(self, ready: bool) -> None:
            """Something to begin with."""
            for name, session in (("a", "s"), ("b", "s"), ("c", "s"), ("d", "t")):
                self.admitted(name, session, "x", ready or name in "ad", 10, "requeue", 0)
            self.claim((True, 0), "1")

        @rule(
            pick=PICK, session=SESSIONS, agent=AGENTS, ready=st.booleans(), most=st.sampled_from([1, 2, 10]),
            on_lapse=st.sampled_from(["requeue", "requeue", "hold"]), priority=st.sampled_from([0, 0, 5]),
        )  # fmt: skip
        def admit(
            self, pick: Pick, session: str, agent: str, ready: bool, most: int, on_lapse: str, priority: int
        ) -> None:
            """As a rule under a new name, else as it was or with other fields."""
            number = pick[1] if not pick[0] else min(len(self.queue.subs) + len(self.queue.removed), len(IDS) - 1)
            self.admitted(IDS[number], session, agent, ready, most, on_lapse, priority)

        def admitted(
            self, name: str, session: str, agent: str, ready: bool, most: int, on_lapse: str, priority: int
        ) -> None:
            body = {
                "id": name, "session_key": session, "kind": "direct", "agent": agent, "instance_id": "i",
                "input": [ready], "ready": ready, "max_attempts": most, "on_lapse": on_lapse, "priority": priority,
            }  # fmt: skip
            answer = self.post("", **body)
            sub = self.queue.subs.get(name)
            if name in self.queue.removed:
                assert (answer.status_code, answer.json()["kind"]) == (200, "retained_receipt")
                return
            if sub is None:
                sub = Sub(name, session, agent, most, on_lapse, priority)
                self.queue.admit(sub, ready=ready)
                sub.given = body
                assert answer.status_code == 201, answer.text
            elif sub.given != body:
                assert (answer.status_code, answer.json()["code"]) == (409, "submission_conflict")
                assert answer.json()["current_status"] == sub.status
                return
            else:
                assert answer.status_code == 200, answer.text
            sub.learn(answer.json()["submission"])

        @rule(pick=PICK)
        def ready(self, pick: Pick) -> None:
            name = self.target(pick, "queued", "joining", "joined")
            self.shows(name, "ready", self.queue.ready)

        @rule(pick=PICK, attempt=ATTEMPTS)
        def claim(self, pick: Pick, attempt: str) -> None:
            name = self.target(pick, "queued", "joining", "joined")
            self.shows(
                name, "claim", lambda sub: self.queue.claim(sub, attempt, "o"),
                attempt_id=attempt, owner_id="o", lease_seconds=600,
            )  # fmt: skip

        @rule(session=SESSIONS, attempt=ATTEMPTS)
        def claim_head(self, session: str, attempt: str) -> None:
            """As a worker does, so that something runs as a rule."""
            for sub in self.queue.session(session)[:1]:
                if sub.stamps["canonical_ready_at"] is None:
                    self.ready((False, IDS.index(sub.id)))
                self.claim((False, IDS.index(sub.id)), attempt)

        @rule(agent=st.sampled_from([None, "x", "y"]), limit=st.integers(1, 3))
        def claim_next(self, agent: str | None, limit: int) -> None:
            """The heads that are runnable, the foremost first."""
            chosen = [sub for sub in self.queue.runnable() if agent in (None, sub.agent)][:limit]
            body = {} if agent is None else {"agent": agent}
            answer = self.post("/claim-next", owner_id="o", limit=limit, lease_seconds=600, wait_seconds=0, **body)
            items = answer.json()["items"]
            assert [item["id"] for item in items] == [sub.id for sub in chosen]
            for sub, item in zip(chosen, items, strict=True):
                self.queue.claim(sub, item["attempt_id"], "o")
                sub.learn(item)
                assert item["input"] == sub.given["input"]

        @rule(owner=st.sampled_from(["o", "o", "p"]), names=st.lists(st.sampled_from(IDS), max_size=4, unique=True))
        def renew(self, owner: str, names: list[str]) -> None:
            """What runs and is the owner's."""
            names += [sub.id for sub in self.queue.subs.values() if sub.status == "running" and sub.id not in names]
            held = [name for name in names if self.queue.renew(name, owner)]
            answer = self.post("/renew-leases", owner_id=owner, submission_ids=names, lease_seconds=600)
            skipped = [name for name in names if name not in held]
            assert (answer.status_code, answer.json()) == (200, {"renewed": held, "skipped": skipped})

        @rule(held=st.booleans())
        def lapse(self, held: bool) -> None:
            """The leases of all that runs lapse; the service acts on what is not held for its owner."""
            for sub in self.queue.subs.values():
                sub.lapsed = sub.status == "running" and (held or sub.on_lapse == "requeue")
            ground.run(self.lapsed([sub.id for sub in self.queue.subs.values() if sub.lapsed]))
            self.queue.lapse()

        async def lapsed(self, names: list[str]) -> None:
            past = "UPDATE submissions SET lease_lapses_at = '2000-01-01' WHERE tenant_id = $1 AND id = ANY ($2)"
            await ground.connection.execute(past, self.tenant_id, names)
            await lapse(ground.service.ground.database, 100, 600, 600)

        @rule(pick=PICK, likely=st.booleans())
        def remove(self, pick: Pick, likely: bool) -> None:
            """Only what is settled; its id admits nothing again."""
            name = self.target(pick, "settled") if likely else IDS[pick[1]]
            answer = ground.run(self.client.delete(f"/v1/submissions/{name}"))
            sub = self.queue.subs.get(name)
            if sub is None:
                assert answer.status_code == 404
            elif sub.status != "settled":
                assert (answer.status_code, answer.json()["code"]) == (409, "not_settled")
                assert answer.json()["current_status"] == sub.status
            else:
                assert answer.status_code == 204
                self.queue.removed.add(name)
                del self.queue.subs[name]

        @rule(view=st.sampled_from(["runnable", "unready", "running", "expired", "unsettled"]))
        def view(self, view: str) -> None:
            """A list, by sequence."""
            answer = ground.run(self.client.get(f"/v1/submissions?view={view}"))
            assert [item["id"] for item in answer.json()["items"]] == [sub.id for sub in self.queue.view(view)]

        @rule(pick=PICK)
        def list_joins(self, pick: Pick) -> None:
            """What joins, or has joined."""
            name = self.target(pick, "running")
            answer = ground.run(self.client.get(f"/v1/submissions/{name}/joins"))
            if name not in self.queue.subs:
                assert answer.status_code == 404
                return
            assert [item["id"] for item in answer.json()["items"]] == [sub.id for sub in self.queue.joins(name)]

        @rule(pick=PICK, attempt=OWN, most=SHORT)
        def apply_input(self, pick: Pick, attempt: str | None, most: int | None) -> None:
            name = self.target(pick, "running")
            own = self.attempt(name, attempt)
            self.shows(
                name, "input-applied", lambda sub: self.queue.apply_input(sub, own, most),
                attempt_id=own, max_attempts=most,
            )  # fmt: skip

        @rule(pick=PICK, attempt=OWN)
        def request_recovery(self, pick: Pick, attempt: str | None) -> None:
            name = self.target(pick, "running")
            own = self.attempt(name, attempt)
            self.shows(name, "recovery-request", lambda sub: self.queue.request_recovery(sub, own), attempt_id=own)

        @rule(session=SESSIONS)
        def abort(self, session: str) -> None:
            answer = self.post("/abort-session", session_key=session)
            assert (answer.status_code, answer.json()) == (200, {"submission_ids": self.queue.abort(session)})

        @rule(pick=PICK, attempt=OWN, next=st.sampled_from(["4", "5"]), owner=st.sampled_from([None, "p"]))
        def replace(self, pick: Pick, attempt: str | None, next: str, owner: str | None) -> None:
            name = self.target(pick, "running")
            own = self.attempt(name, attempt)
            if own == next:
                refused = self.post(f"/{name}/replace-attempt", attempt_id=own, next_attempt_id=next)
                assert refused.status_code == 422
                return
            self.shows(
                name, "replace-attempt", lambda sub: self.queue.replace(sub, own, next, owner),
                attempt_id=own, next_attempt_id=next, owner_id=owner,
            )  # fmt: skip

        @rule(pick=PICK, attempt=OWN, error=ERRORS, later=st.sampled_from([False, False, True]))
        def requeue(self, pick: Pick, attempt: str | None, error: str | None, later: bool) -> None:
            name = self.target(pick, "running")
            own = self.attempt(name, attempt)
            self.shows(
                name, "requeue", lambda sub: self.queue.requeue(sub, own, error, later=later),
                attempt_id=own, error=error, delay_seconds=3600 if later else None,
            )  # fmt: skip

        @rule(session=SESSIONS)
        def postpone(self, session: str) -> None:
            """A head that is given back for later blocks its session."""
            self.claim_head(session, "1")
            for sub in self.queue.session(session)[:1]:
                self.requeue((False, IDS.index(sub.id)), None, None, True)
            self.claim_head(session, "1")

        @rule()
        def time_passes(self) -> None:
            """What was to wait has waited."""
            waiting = [sub for sub in self.queue.subs.values() if sub.stamps["not_before"]]
            ground.run(ground.connection.execute(
                "UPDATE submissions SET not_before = NULL WHERE tenant_id = $1", self.tenant_id))  # fmt: skip
            for sub in waiting:
                sub.stamps["not_before"] = None

        @rule(pick=PICK, attempt=OWN)
        def complete(self, pick: Pick, attempt: str | None) -> None:
            name = self.target(pick, "running")
            own = self.attempt(name, attempt)
            self.shows(name, "complete", lambda sub: self.queue.complete(sub, own), attempt_id=own)

        @rule(pick=PICK, attempt=OWN, error=st.sampled_from(["", "It broke."]))
        def fail(self, pick: Pick, attempt: str | None, error: str) -> None:
            name = self.target(pick, "running")
            own = self.attempt(name, attempt)
            self.shows(name, "fail", lambda sub: self.queue.fail(sub, own, error), attempt_id=own, error=error)

        @rule(pick=PICK, outcome=st.sampled_from(["failed", "aborted"]))
        def settle_queued(self, pick: Pick, outcome: str) -> None:
            name = self.target(pick, "queued")
            self.shows(
                name, "settle-queued", lambda sub: self.queue.settle_queued(sub, outcome, "Never ran."),
                outcome=outcome, error="Never ran.",
            )  # fmt: skip

        @rule(pick=PICK, attempt=OWN, record=RECORDS, outcome=OUTCOMES, error=ERRORS)
        def reserve(self, pick: Pick, attempt: str | None, record: str, outcome: str, error: str | None) -> None:
            name = self.target(pick, "running", "joined", "terminalizing")
            own = self.attempt(name, attempt)
            sub = self.queue.subs.get(name)
            if sub is not None and sub.status == "joined" and attempt is None and sub.joined_into:
                own = self.attempt(sub.joined_into, None)
            body = {"id": record, "outcome": outcome, "error": {"message": error}}
            answer, _ = self.called(
                name, "settlement/reserve", lambda sub: self.queue.reserve(sub, own, (record, outcome, error)),
                attempt_id=own, record_id=record, record=body,
            )  # fmt: skip
            if answer.status_code == 200:
                assert answer.json() == {
                    "submission_id": name, "session_key": self.queue.subs[name].session_key, "attempt_id": own,
                    "record_id": record, "record": body,
                }  # fmt: skip

        @rule(pick=PICK, attempt=OWN, record=RECORDS, message=ERRORS)
        def finalize(self, pick: Pick, attempt: str | None, record: str, message: str | None) -> None:
            name = self.target(pick, "terminalizing", "running")
            own = self.attempt(name, attempt)
            self.shows(
                name, "settlement/finalize", lambda sub: self.queue.finalize(sub, own, record, message),
                attempt_id=own, record_id=record, error_message=message,
            )  # fmt: skip

        @rule(session=SESSIONS, agent=AGENTS)
        def claim_joins_of_head(self, session: str, agent: str) -> None:
            """Where something may join."""
            for sub in self.queue.session(session)[:1]:
                self.claim_joins((False, IDS.index(sub.id)), None, agent)

        @rule(session=SESSIONS, final=st.sampled_from([(True,), (False,), (True, False), (False, True), ()]))
        def take_in(self, session: str, final: tuple[bool, ...]) -> None:
            """What a runtime does with a session that has several."""
            self.claim_head(session, "1")
            for name in IDS[len(self.queue.subs) + len(self.queue.removed) :][:1]:
                self.admitted(name, session, "x", True, 10, "requeue", 0)
            self.claim_joins_of_head(session, "x")
            for each in final:
                self.end_join((True, 0), (True, 0), None, each)

        @rule(likely=st.booleans(), outcome=OUTCOMES, error=ERRORS)
        def settle_by_record(self, likely: bool, outcome: str, error: str | None) -> None:
            """What a runtime does in the end."""
            self.reserve((True, 1 if likely else 0), None, "r", outcome, error)
            self.finalize((True, 0), None, "r", None)

        @rule(pick=PICK, attempt=OWN, agent=AGENTS)
        def claim_joins(self, pick: Pick, attempt: str | None, agent: str) -> None:
            name = self.target(pick, "running")
            own = self.attempt(name, attempt)
            answer, found = self.called(
                name, "joins/claim", lambda sub: self.queue.claim_joins(sub, own, agent), attempt_id=own, agent=agent
            )
            if isinstance(found, list):
                items = answer.json()["items"]
                assert [item["id"] for item in items] == [sub.id for sub in found]
                for sub, item in zip(found, items, strict=True):
                    sub.learn(item)
                    assert item["input"] == sub.given["input"]

        @rule(pick=PICK, other=PICK, attempt=OWN, final=st.booleans())
        def end_join(self, pick: Pick, other: Pick, attempt: str | None, final: bool) -> None:
            name = self.target(pick, "joining")
            child = self.queue.subs.get(name)
            host = self.target(other, "running")
            if child is not None and child.joined_into and attempt is None:
                host = child.joined_into
            own = self.attempt(host, attempt)
            answer = self.post(f"/{host}/joins/{name}/{'finalize' if final else 'revert'}", attempt_id=own)
            if child is None or host not in self.queue.subs:
                assert answer.status_code == 404
                return
            _, refused = decided(lambda: self.queue.end_join(self.queue.subs[host], child, own, final=final))
            if refused is not None:
                assert (answer.status_code, answer.json()["code"]) == (409, refused.code), answer.text
                assert answer.json()["current_status"] == refused.about.status
                return
            assert answer.status_code == 200, answer.text
            child.learn(answer.json())

        @invariant()
        def everything_is_as_the_model_says(self) -> None:
            """All rows, not only the one that was answered; and what no model knows."""
            rows, dead, rules = ground.run(self.looked())
            assert rules == {}
            assert sorted(dead) == sorted(self.queue.dead)
            assert {row["id"]: row["status"] for row in rows} == {
                sub.id: sub.status for sub in self.queue.subs.values()
            }
            for row in rows:
                sub = self.queue.subs[row["id"]]
                sub.learn({**sub.shown(), **json.loads(row["shown"])})

        async def looked(self) -> tuple[list[asyncpg.Record], list[str], dict[str, Any]]:
            rows = await ground.connection.fetch(ROWS, self.tenant_id)
            dead = await ground.connection.fetch(
                "SELECT subject FROM dead_letters WHERE tenant_id = $1", self.tenant_id
            )
            return rows, [row["subject"] for row in dead], await broken(ground.connection)

    return Machine


_SHOWN = ", ".join(
    f"to_char({name} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') AS {name}"
    for name in Sub("", "", "", 1, "", 0).stamps
)
ROWS = f"""SELECT id, status, (SELECT row_to_json(r) FROM (SELECT status, attempt_id, attempt_count, max_attempts,
  owner_id, joined_into, outcome, error, {_SHOWN}) AS r) AS shown FROM submissions AS s WHERE tenant_id = $1"""


def test_random_calls_answer_what_the_model_says(clone: Callable[[], Awaitable[str]]) -> None:
    with asyncio.Runner() as runner:
        ground = Ground(runner, clone)
        try:
            run_state_machine_as_test(machine(ground), settings=PROFILE)  # type: ignore[no-untyped-call]
        finally:
            runner.run(ground.close())
    assert ground.seen.total() >= STEPS_MIN
    calls = {call for call, _ in ground.seen}
    assert {call for call in calls if not ground.seen[call, "done"]} == set()
    # What a run meets is up to chance; each refusal has its own test besides.
    assert len(REFUSALS - {code for _, code in ground.seen}) <= 2
