"""A controller that starts again has its running jobs and cases back as they were, and has written nothing for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import supervaizer.server
from supervaizer import storage as module
from supervaizer.case import Case, CaseNodeUpdate, Cases
from supervaizer.job import Job, JobContext, JobResponse, Jobs
from supervaizer.lifecycle import EntityStatus

from cairn_supervaizer import Installed, Reloaded, reload_running
from tests.supervaizer import entities

Requests = Callable[[], list[str]]


@pytest.fixture
def requests(caplog: pytest.LogCaptureFixture) -> Requests:
    """The methods and paths of the requests that were sent since it was asked last."""
    caplog.set_level(logging.INFO, "httpx")

    def sent() -> list[str]:
        found = [one.getMessage().split(" ")[2:4] for one in caplog.records if one.name == "httpx"]
        caplog.clear()
        return [f"{method} {url.partition('/v1/')[2].partition('?')[0]}" for method, url in found]

    return sent


def restarted(installed: Installed, account: Any) -> Reloaded:
    """What a process finds that knows nothing."""
    installed.storage._known.clear()
    return reload_running(installed.storage, account)


def test_what_runs_is_back_as_it_was_and_nothing_is_written(
    installed: Installed, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = entities.job(metadata={"source": "mail"})
    try:
        raise RuntimeError("The tool broke")
    except RuntimeError as error:
        job.add_response(JobResponse("job_1", EntityStatus.IN_PROGRESS, "It broke", {"n": 1}, error))
    case = entities.case()
    overdue = datetime.now(UTC) - timedelta(hours=1)
    case.update_sync(entities.step("Later", scheduled_at=overdue, scheduled_method="m.f", scheduled_status="pending"))
    form = {"supervaizer_form": {"question": "Go on?", "answer": {"fields": [{"name": "yes", "type": bool}]}}}
    case.request_human_input_sync(CaseNodeUpdate(name="Ask", payload=form), "Go on?")
    done = entities.case(case_id="case_2")
    done.close_sync({"answer": 42})
    before = [installed.storage.get_objects(kind) for kind in ("Job", "Case")]
    kept = (job.to_dict, case.to_dict)
    requests()

    monkeypatch.setattr(module, "storage_manager", None)  # Nobody may save by it.
    assert restarted(installed, entities.account("sk_new")) == Reloaded(jobs=1, cases=1)
    assert all(one.startswith("POST") and one.endswith("/query") for one in requests())
    assert [installed.storage.get_objects(kind) for kind in ("Job", "Case")] == before

    found, again = Jobs().get_job("job_1"), Cases().get_case("case_1")
    assert found is not None
    assert again is not None
    assert (found is job, again is case) == (False, False)
    assert found.to_dict == kept[0]
    assert again.to_dict == kept[1] | {"account": kept[1]["account"] | {"api_key": "sk_new"}}
    assert (type(found), type(found.status), type(found.job_context)) == (Job, EntityStatus, JobContext)
    assert isinstance(found.created_at, datetime)
    assert (type(found.responses[0]), found.responses[0].error_message) == (JobResponse, "The tool broke")
    assert "RuntimeError" in (found.responses[0].error_traceback or "")
    assert found.registration_info["status"] == "in_progress"
    assert (type(again), again.status, [type(one) for one in again.updates]) == (
        Case, EntityStatus.AWAITING, [CaseNodeUpdate, CaseNodeUpdate],
    )  # fmt: skip
    assert again.calculated_cost == 0.25
    assert [(one.id, place) for one, place, _ in Cases().get_due_scheduled_steps()] == [("case_1", 0)]


def test_what_was_brought_back_goes_on(installed: Installed) -> None:
    job, case = entities.job(), entities.case()
    case.request_human_input_sync(entities.step("Ask"), "Go on?")
    theirs = installed.storage.get_object_by_id("Job", "job_1")
    restarted(installed, entities.account())
    # Somebody else adds a case to the job after we have read it, and it is shown here.
    assert theirs is not None
    theirs["case_ids"].append("theirs")
    installed.storage.save_object("Job", theirs)
    installed.storage.get_object_by_id("Job", "job_1")
    again = Cases().get_case("case_1")
    assert again is not None
    again.receive_human_input_sync(entities.step("Human Input Response"))
    assert again.status == EntityStatus.IN_PROGRESS
    found = Jobs().get_job("job_1")
    assert found is not None
    found.add_case_id("ours")
    stored = [installed.storage.get_object_by_id(*one) or {} for one in (("Case", case.id), ("Job", job.id))]
    assert (stored[0]["status"], [one["name"] for one in stored[0]["updates"]]) == (
        "in_progress", ["Ask", "Human Input Response"],
    )  # fmt: skip
    assert stored[1]["case_ids"] == ["case_1", "theirs", "ours"]


@pytest.mark.parametrize(
    ("type", "change", "why"),
    [
        ("Job", {"status": "runing"}, "'runing' is no status"),
        ("Job", {"responses": [{"job_id": "j", "status": "bogus", "message": "m"}]}, "responses/0/status"),
        ("Job", {"job_context": {"job_id": "secret"}}, "job_context/workspace_id: Field required"),
        ("Job", {"responses": "none"}, "responses"),
        ("Case", {"status": None}, "None is no status"),
        ("Case", {"updates": [{"scheduled_status": "soon"}]}, "'soon' is no status of a scheduled step"),
        ("Case", {"updates": [{"scheduled_at": "soon"}]}, "scheduled_at"),
        ("Case", {"updates": [{"unknown": 1}]}, "unknown"),
        ("Case", {"account": {"workspace_id": "ws_2"}}, "workspace 'ws_2'"),
    ],
)
def test_what_is_not_valid_is_rejected_and_said_and_the_rest_is_loaded(
    installed: Installed, type: str, change: dict[str, Any], why: str
) -> None:
    entities.job(), entities.case(), entities.job("job_2"), entities.case("job_2", "case_2")
    spoiled = "job_1" if type == "Job" else "case_1"
    installed.storage.save_object(type, (installed.storage.get_object_by_id(type, spoiled) or {}) | change)
    found = restarted(installed, entities.account())
    assert (found.jobs, found.cases) == ((1, 2) if type == "Job" else (2, 1))
    assert [(one.type, one.id) for one in found.rejected] == [(type, spoiled)]
    assert why in found.rejected[0].why
    assert "secret" not in found.rejected[0].why


def test_a_server_that_starts_reloads_with_its_account(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    entities.job(), entities.case()
    Jobs().reset(), Cases().reset()
    account = entities.account()
    supervaizer.server.Server(
        agents=[], supervisor_account=account, host="127.0.0.1", port=8123, api_key="k" * 32, admin_interface=False
    )
    again = Cases().get_case("case_1")
    assert again is not None
    assert again.account is account
    # Without one it is the account of the environment, and without that no case.
    found = reload_running(installed.storage)
    assert (found.jobs, found.cases, [one.id for one in found.rejected]) == (1, 0, ["case_1"])
    assert "supervisor_account" in found.rejected[0].why
    for name, value in (("WORKSPACE_ID", "ws_1"), ("API_KEY", "sk"), ("API_URL", "https://studio.invalid")):
        monkeypatch.setenv(f"SUPERVAIZE_{name}", value)
    module.load_running_entities_on_startup()
    again = Cases().get_case("case_1")
    assert again is not None
    assert again.account.api_key == "sk"
