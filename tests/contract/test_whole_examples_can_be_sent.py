"""The body that the document shows for a whole call is taken as it stands: it is what is sent by who tries the call."""

from __future__ import annotations

from typing import Any

import httpx


async def test_what_the_document_shows_is_taken(client: httpx.AsyncClient) -> None:
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]

    async def sent(path: str, name: str, **other: Any) -> Any:
        answer = await client.post(f"/v1/{path}", json=schemas[name]["example"] | other)
        assert answer.is_success, (name, answer.text)
        return answer.json()

    assert (await sent("submissions", "NewSubmission"))["submission"]["id"] == "sub_9"
    assert (await sent("submissions/sub_9/claim", "Claim"))["status"] == "running"
    assert (await sent("submissions/renew-leases", "RenewLeases"))["renewed"] == ["sub_9"]
    assert (await sent("submissions/claim-next", "ClaimNext"))["items"] == []

    unknown = await client.post("/v1/conversations/append", json=schemas["Append"]["example"])
    assert (unknown.status_code, unknown.json()["code"]) == (404, "conversation_not_found")
    path = schemas["Append"]["example"]["path"]
    identity = {"agent_name": "echo", "instance_id": "i1"}
    await client.put("/v1/conversations", json={"path": path, "identity": identity})
    claim = (await client.post("/v1/conversations/acquire", json={"path": path, "producer_id": "p1"})).json()
    await sent(
        "conversations/append", "Append",
        incarnation=claim["incarnation"], producer_epoch=claim["producer_epoch"], producer_sequence=0,
    )  # fmt: skip


async def test_what_the_document_shows_of_webhooks_is_taken(client: httpx.AsyncClient) -> None:
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    # No name is looked up by a test.
    hook = schemas["NewWebhook"]["example"] | {"url": "http://127.0.0.1:9/"}
    made = await client.post("/v1/webhooks", json=hook)
    assert made.status_code == 201, made.text
    path = f"/v1/webhooks/{made.json()['id']}"
    for answer in (
        await client.patch(path, json=schemas["WebhookChange"]["example"]),
        await client.post(f"{path}/rotate-secret", json=schemas["SecretRotation"]["example"]),
        await client.post(f"{path}/test", json=schemas["WebhookTest"]["example"]),
        await client.post("/v1/dead-letters/replay", json=schemas["DeadLetterReplay"]["example"]),
    ):
        assert answer.is_success, answer.text
