"""Brings running jobs and cases back into the registries when a controller starts; it writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from supervaizer.common import log
from supervaizer.lifecycle import EntityStatus

from cairn_supervaizer.accounts import account_of_process
from cairn_supervaizer.storage import CairnStorage


@dataclass(frozen=True)
class Rejected:
    """A stored object that was not loaded, and why."""

    type: str
    id: Any
    why: str


@dataclass
class Reloaded:
    """What a reload came to."""

    jobs: int = 0
    cases: int = 0
    rejected: list[Rejected] = field(default_factory=list)


def reload_running(storage: CairnStorage, account: Any | None = None) -> Reloaded:
    """Load running jobs and cases into the registries, which are emptied first, and say what was rejected and why.

    They are validated and have the types that new ones have; times, error texts and ids are the stored ones. Cases get
    `account`, or the account of this process. Nothing is written.
    """
    # Not before it is needed: supervaizer.job keeps what it finds in supervaizer.storage when it is first imported.
    from supervaizer.case import Cases  # noqa: PLC0415
    from supervaizer.job import Jobs  # noqa: PLC0415

    from cairn_supervaizer.rebuilding import rebuilt_case, rebuilt_job  # noqa: PLC0415

    Jobs().reset()
    Cases().reset()
    owner = account_of_process(account)
    outcome = Reloaded()

    def add_job(stored: Mapping[str, Any]) -> None:
        Jobs().add_job(rebuilt_job(stored))
        outcome.jobs += 1

    def add_case(stored: Mapping[str, Any]) -> None:
        if owner is None:
            raise ValueError(
                "this process has no account to give it: make the server with supervisor_account, set"
                " SUPERVAIZE_WORKSPACE_ID, SUPERVAIZE_API_KEY and SUPERVAIZE_API_URL, or install(account=...)"
            )
        Cases().add_case(rebuilt_case(stored, owner))
        outcome.cases += 1

    _load(storage, "Job", "§SSL01", add_job, outcome)
    _load(storage, "Case", "§SSL03", add_case, outcome)
    log.info(
        f"[Storage] Entity re-loading complete: {outcome.jobs} running jobs, {outcome.cases} running cases,"
        f" {len(outcome.rejected)} rejected"
    )
    return outcome


def _load(
    storage: CairnStorage, type: str, code: str, add: Callable[[Mapping[str, Any]], None], outcome: Reloaded
) -> None:
    running = {status.value for status in EntityStatus.status_running()}
    known = {status.value for status in EntityStatus}
    for stored in storage.every(type):
        status = stored.get("status")
        try:
            if status not in known:
                raise ValueError(f"{status!r} is no status")
            if status in running:
                add(stored)
                storage.holds(type, stored)
        except (ValueError, TypeError, AttributeError) as error:
            # One that cannot be loaded keeps no other from being loaded.
            rejected = Rejected(type, stored.get("id"), _why(error))
            outcome.rejected.append(rejected)
            log.error(f"[Storage] {code} Failed to load {type.lower()} {rejected.id}: {rejected.why}")


def _why(error: Exception) -> str:
    """What is wrong and where, without the values, which may be anything."""
    from pydantic import ValidationError  # noqa: PLC0415

    if isinstance(error, ValidationError):
        return "; ".join(f"{'/'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_input=False))
    return str(error)
