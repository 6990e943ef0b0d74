"""Webhooks over HTTP: made, read, changed, disabled, enabled, removed."""

from __future__ import annotations

import base64

import httpx
import pytest

from tests.conftest import Make
from tests.payloads import problem
from tests.webhooks.hooks import URL, Hooks

OWN = "whsec_" + base64.b64encode(b"k" * 24).decode()
OTHER = "whsec_" + base64.b64encode(b"l" * 64).decode()


async def test_a_webhook_is_made_with_a_secret_that_is_shown_once(hooks: Hooks, client: httpx.AsyncClient) -> None:
    made = await client.post(
        "/v1/webhooks",
        json={
            "id": "wh", "url": URL, "event_types": ["invocation.ended", "submission.*"], "include": ["output"],
            "description": "d", "headers": {"X-B": "secret-b", "X-A": "secret-a"},
        },
    )  # fmt: skip
    assert made.status_code == 201, made.text
    body = made.json()
    secret = body.pop("secret")
    assert secret.startswith("whsec_")
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
    assert body == {
        "id": "wh", "url": URL, "event_types": ["invocation.ended", "submission.*"], "include": ["output"],
        "description": "d", "enabled": True, "headers": {"X-A": None, "X-B": None}, "disabled_at": None,
        "disabled_reason": None, "missed_after": None, "failing_since": None, "previous_secret_until": None,
        "created_at": body["created_at"], "updated_at": body["updated_at"],
    }  # fmt: skip
    got = await client.get("/v1/webhooks/wh")
    assert (got.status_code, got.json(), got.headers["etag"]) == (200, body, made.headers["etag"])
    assert (await client.get("/v1/webhooks")).json()["items"] == [body]


async def test_making_it_again_answers_it_without_the_secret_and_another_is_a_conflict(
    hooks: Hooks, client: httpx.AsyncClient
) -> None:
    fields = {"id": "wh", "url": URL, "headers": {"a": "1", "b": "2"}, "secret": OWN}
    first = await client.post("/v1/webhooks", json=fields)
    again = await client.post("/v1/webhooks", json={**fields, "headers": {"b": "2", "a": "1"}})
    assert (first.status_code, first.json()["secret"]) == (201, OWN)
    assert (again.status_code, again.json()) == (200, {**first.json(), "secret": None})
    for other in ({"url": URL + "/"}, {"headers": {"a": "1", "b": "3"}}, {"secret": OTHER}):
        answer = await client.post("/v1/webhooks", json={**fields, **other})
        assert problem(answer) == (409, "webhook_conflict")


async def test_a_replay_shows_no_secret(client: httpx.AsyncClient) -> None:
    headers = {"idempotency-key": "k"}
    first = await client.post("/v1/webhooks", json={"id": "wh", "url": URL}, headers=headers)
    again = await client.post("/v1/webhooks", json={"id": "wh", "url": URL}, headers=headers)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == {**first.json(), "secret": None}


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"url": "http://169.254.169.254/"}, "/url"),
        ({"url": "http://10.0.0.1/"}, "/url"),
        ({"url": "ftp://example.com/"}, "/url"),
        ({"url": "http://user:pw@127.0.0.1/"}, "/url"),
        ({"event_types": ["invocation.finished"]}, "/event_types/0"),
        ({"event_types": ["invocation.ended", "invocations.*"]}, "/event_types/1"),
        ({"event_types": ["*"]}, "/event_types/0"),
        ({"event_types": ["webhook.test"]}, "/event_types/0"),
        ({"include": ["metadata"]}, "/include/0"),
        ({"secret": "whsec_c2hvcnQ="}, "/secret"),
        ({"secret": base64.b64encode(b"k" * 24).decode()}, "/secret"),
        ({"headers": {"Host": "x"}}, "/headers/Host"),
        ({"headers": {"webhook-id": "x"}}, "/headers/webhook-id"),
        ({"headers": {"a": "1\r\nb: 2"}}, "/headers/a"),
        ({"headers": {"a": None}}, "/headers/a"),
        ({"enabled": None}, "/enabled"),
    ],
)
async def test_what_cannot_be_is_refused_naming_the_field(
    hooks: Hooks, client: httpx.AsyncClient, fields: dict[str, object], pointer: str
) -> None:
    await hooks.made("there")
    for answer in (
        await client.post("/v1/webhooks", json={"id": "wh", "url": URL, **fields}),
        *([] if pointer == "/secret" else [await client.patch("/v1/webhooks/there", json=fields)]),
    ):
        assert problem(answer) == (422, "invalid_input"), answer.text
        assert answer.json()["errors"][0]["pointer"] == pointer
    assert problem(await client.get("/v1/webhooks/wh")) == (404, "webhook_not_found")


async def test_the_fields_given_change_and_the_others_stay(hooks: Hooks, client: httpx.AsyncClient) -> None:
    made = await hooks.made(event_types=["submission.*"], include=["input"], description="d", headers={"a": "1"})
    made.pop("secret")
    changed = await client.patch("/v1/webhooks/wh", json={"description": None, "headers": {"b": "2"}})
    assert changed.status_code == 200, changed.text
    wanted = {**made, "description": None, "headers": {"b": None}, "updated_at": changed.json()["updated_at"]}
    assert changed.json() == wanted == await hooks.get()
    cleared = await client.patch("/v1/webhooks/wh", json={"event_types": [], "include": [], "headers": {}})
    assert {**cleared.json(), "updated_at": ""} == {
        **wanted, "event_types": [], "include": [], "headers": {}, "updated_at": "",
    }  # fmt: skip


async def test_a_webhook_that_was_disabled_says_where_its_events_go_on(
    hooks: Hooks, client: httpx.AsyncClient, make: Make
) -> None:
    await hooks.made()
    await hooks.sequenced()
    head = (await client.get("/v1/events")).json()["next_cursor"]
    await hooks.handed_out()
    disabled = await client.patch("/v1/webhooks/wh", json={"enabled": False})
    assert disabled.json()["disabled_reason"] == "by_client"
    assert disabled.json()["disabled_at"] is not None
    assert disabled.json()["missed_after"] == head
    again = await client.patch("/v1/webhooks/wh", json={"enabled": False, "description": "still"})
    assert again.json()["disabled_at"] == disabled.json()["disabled_at"]
    await make.workflow(id="missed")
    await hooks.sequenced()
    for repeat in range(2):
        enabled = await client.post("/v1/webhooks/wh/enable")
        assert enabled.status_code == 200, enabled.text
        assert (enabled.json()["enabled"], enabled.json()["disabled_at"]) == (True, None)
        assert enabled.json()["missed_after"] == (None if repeat else head)
    missed = (await client.get("/v1/events", params={"after": head})).json()["items"]
    assert [event["type"] for event in missed] == [
        "webhook.disabled", "webhook.updated", "workflow.created",
    ]  # fmt: skip
    row = (await hooks.execute("SELECT after_position FROM webhooks WHERE tenant_id = $1"))[0]
    assert row["after_position"] == missed[-1]["position"]


async def test_a_webhook_that_failed_is_brought_back(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made()
    await hooks.execute(
        "UPDATE webhooks SET enabled = false, disabled_at = now(), disabled_reason = 'failing', failing_since = now()"
        " WHERE tenant_id = $1"
    )
    assert (await client.get("/v1/webhooks?failing=true")).json()["items"] == [await hooks.get()]
    assert (await client.get("/v1/webhooks?enabled=true")).json()["items"] == []
    back = await client.patch("/v1/webhooks/wh", json={"enabled": True})
    assert [back.json()[name] for name in ("enabled", "disabled_at", "disabled_reason", "failing_since")] == [
        True, None, None, None,
    ]  # fmt: skip


async def test_the_secret_is_rotated_and_both_sign_for_a_while(hooks: Hooks, client: httpx.AsyncClient) -> None:
    secret = (await hooks.made())["secret"]
    rotated = await client.post("/v1/webhooks/wh/rotate-secret")
    assert rotated.status_code == 200, rotated.text
    assert rotated.json()["secret"] not in (secret, None)
    assert rotated.json()["previous_secret_until"] is not None
    assert await hooks.secrets() == (rotated.json()["secret"], secret)
    own = await client.post("/v1/webhooks/wh/rotate-secret", json={"secret": OWN, "overlap_seconds": 0})
    assert (own.json()["secret"], own.json()["previous_secret_until"]) == (OWN, None)
    assert await hooks.secrets() == (OWN, None)
    assert problem(await client.post("/v1/webhooks/absent/rotate-secret")) == (404, "webhook_not_found")


async def test_a_webhook_that_is_removed_is_gone_and_its_deliveries_stay(
    hooks: Hooks, client: httpx.AsyncClient
) -> None:
    await hooks.made()
    name = await hooks.delivery()
    assert (await client.delete("/v1/webhooks/wh")).status_code == 204
    assert problem(await client.delete("/v1/webhooks/wh")) == (404, "webhook_not_found")
    listed = (await client.get("/v1/webhooks/wh/deliveries")).json()["items"]
    assert [delivery["id"] for delivery in listed] == [name]


async def test_every_change_leaves_an_event_without_secrets(hooks: Hooks, client: httpx.AsyncClient) -> None:
    await hooks.made(headers={"X-Key": "a-value"})
    await client.patch("/v1/webhooks/wh", json={"headers": {"X-Key": "another-value"}})
    await client.post("/v1/webhooks/wh/rotate-secret")
    await client.patch("/v1/webhooks/wh", json={"enabled": False})
    await client.post("/v1/webhooks/wh/enable")
    await client.delete("/v1/webhooks/wh")
    await hooks.sequenced()
    events = await client.get("/v1/events")
    assert [event["type"] for event in events.json()["items"]] == [
        "webhook.created", "webhook.updated", "webhook.secret_rotated", "webhook.disabled", "webhook.enabled",
        "webhook.deleted",
    ]  # fmt: skip
    for hidden in ("a-value", "another-value", "whsec_"):
        assert hidden not in events.text
