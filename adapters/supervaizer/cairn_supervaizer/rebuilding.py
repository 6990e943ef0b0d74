"""Makes jobs and cases of stored objects: validated, typed, and without the side effects of their constructors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, create_model
from supervaizer.account import Account
from supervaizer.case import Case, CaseAbstractModel, CaseNodeUpdate
from supervaizer.job import AbstractJob, Job

SCHEDULED_STATUSES: Final = frozenset({"pending", "executing", "completed", "failed", "cancelled"})


def rebuilt_job(stored: Mapping[str, Any]) -> Job:
    """The job that was stored, with the error texts of its responses. What is no job is a `ValueError`.

    It is in no registry, and nothing is saved.
    """
    parsed = AbstractJob.model_validate(stored)
    for response, given in zip(parsed.responses, stored.get("responses") or (), strict=True):
        # The constructor of a response takes an exception and blanks both where there is none.
        response.error_message = given.get("error_message")
        response.error_traceback = given.get("error_traceback")
    return Job.model_construct(**_fields(parsed))


def rebuilt_case(stored: Mapping[str, Any], account: Account) -> Case:
    """The case that was stored, of an account of this process. What is no case is a `ValueError`, or a `TypeError`.

    It is in no registry, and nothing is saved.
    """
    owner = (stored.get("account") or {}).get("workspace_id")
    if owner is not None and str(owner).strip() != account.workspace_id:
        raise ValueError(f"it belongs to workspace {owner!r}, and this process has the account of another")
    updates = [_update(given) for given in stored.get("updates") or ()]
    parsed = _case_model().model_validate({**stored, "account": account, "updates": []})
    return Case.model_construct(**{**_fields(parsed), "account": account, "updates": updates})


def _update(given: Mapping[str, Any]) -> CaseNodeUpdate:
    # The constructor of an update validates nothing; a model of the same fields does.
    fields = {name: getattr(parsed, name) for parsed in [_update_model().model_validate(given)] for name in given}
    if fields.get("scheduled_status") not in SCHEDULED_STATUSES | {None}:
        raise ValueError(f"{fields['scheduled_status']!r} is no status of a scheduled step")
    at = fields.get("scheduled_at")
    if isinstance(at, datetime) and at.tzinfo is None:
        # The scheduler compares with an aware time; these instants are UTC.
        fields["scheduled_at"] = at.replace(tzinfo=UTC)
    return CaseNodeUpdate(**fields)


def _fields(parsed: BaseModel) -> dict[str, Any]:
    return {name: getattr(parsed, name) for name in type(parsed).model_fields}


@cache
def _case_model() -> Any:
    CaseAbstractModel.model_rebuild(_types_namespace={"Account": Account})
    return CaseAbstractModel


@cache
def _update_model() -> type[BaseModel]:
    fields: dict[str, Any] = {name: (field.annotation, field) for name, field in CaseNodeUpdate.model_fields.items()}
    made: type[BaseModel] = create_model("StoredUpdate", __config__=ConfigDict(extra="forbid"), **fields)
    return made
