"""Acceptance 6: every payload, in every verbatim field, on every path that shows it, is the text that was sent."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
import pytest

from app.background.runner import drain
from app.events.jobs import sequencer
from app.http.service import Service
from tests.payloads import PAYLOADS, send

BIG = b'"' + "é\\u0000x€".encode() * 2_000_000 + b'"'
OK = {200, 201}
MEMBERS = (
    "dsl",
    "input",
    "output",
    "fitness",
    "payload",
    "workflow_input",
    "ground_truth",
    "state",
    "checkpoint",
    "data",
    "body",
)


@pytest.fixture(autouse=True)
async def dataset(client: httpx.AsyncClient) -> None:
    """Where the records of the payloads go."""
    assert (await client.post("/v1/datasets", json={"id": "ds", "name": "d"})).status_code == 201


@dataclass(frozen=True)
class Record:
    """Where the record of one payload is, by its ids."""

    version: str
    invocation: str

    @property
    def path(self) -> str:
        return f"/v1/invocations/{self.invocation}"

    @property
    def node(self) -> str:
        return f"{self.path}/nodes/n1"

    def writes(self, payload: bytes) -> list[tuple[str, str, bytes]]:
        """The calls that write the payload into every verbatim field."""
        version, invocation = self.version.encode(), self.invocation.encode()
        return [
            ("POST", "/v1/workflows/w/versions",
             b'{"id":"%b","workflow":{},"dsl":%b,"nodes":[{"node_id":"n"}]}' % (version, payload)),
            ("PUT", f"/v1/versions/{self.version}/io", payload),
            ("POST", "/v1/invocations",
             b'{"id":"%b","version_id":"%b","input":%b , "fitness" : %b}' % (invocation, version, payload, payload)),
            ("POST", f"{self.path}/nodes", b'{"id":"n1","node_id":"n"}'),
            ("POST", f"{self.node}/actions",
             b'{"items":[{"id":"a1","tool":"t","input":%b,"output":%b}]}' % (payload, payload)),
            ("POST", f"{self.path}/messages", b'{"items":[{"id":"m1","role":"r","payload":%b}]}' % payload),
            ("POST", f"{self.node}/end", b'{"output":%b,"status":"completed"}' % payload),
            ("POST", f"{self.path}/end", b'{"status":"completed","output":%b}' % payload),
            ("POST", f"{self.path}/checkpoints", b'{"number":7, "state" :%b}' % payload),
            ("POST", "/v1/datasets/ds/records",
             b'{"id":"%b","workflow_input":%b, "ground_truth" :%b}' % (version, payload, payload)),
            ("POST", "/v1/evolution-runs", b'{"id":"r","generation":{"id":"g"}}'),
            ("POST", "/v1/generations/g/complete", b"{}"),
            ("PUT", "/v1/evolution-runs/r/checkpoint", payload),
            ("PUT", "/v1/conversations/checkpoint?path=c",
             b'{"offset":"-1","incarnation":"i","format_version":1, "data" :%b}' % payload),
            ("PUT", "/v1/documents/c", b'{"history":1}'),
            ("PUT", "/v1/documents/c/d", payload),
            ("PUT", "/v1/documents/c/d", payload),
        ]  # fmt: skip

    def reads(self) -> Mapping[str, tuple[str, ...]]:
        """The calls that show payloads, and the members each must show."""
        return {
            f"/v1/versions/{self.version}?include=dsl": ("dsl",),
            "/v1/versions?include=dsl&limit=1": ("dsl",),
            "/v1/workflows/w/versions?include=dsl&limit=1": ("dsl",),
            "/v1/workflows/w/versions/latest?include=dsl": ("dsl",),
            "/v1/versions/latest?include=dsl": ("dsl",),
            f"{self.path}?include=input,output,fitness": ("input", "output", "fitness"),
            f"/v1/invocations?include=fitness,input,output&version_id={self.version}": ("input", "output", "fitness"),
            f"{self.path}/lineage?include=input,output,fitness": ("input", "output", "fitness"),
            f"{self.node}?include=output": ("output",),
            f"{self.path}/nodes?include=output": ("output",),
            f"/v1/node-invocations?include=output&version_id={self.version}": ("output",),
            f"{self.node}/actions?include=input,output": ("input", "output"),
            f"{self.path}/messages/m1?include=payload": ("payload",),
            f"{self.path}/messages?include=payload": ("payload",),
            f"{self.path}/checkpoints?include=state": ("state",),
            f"{self.path}/checkpoints/latest": ("state",),
            f"{self.path}/checkpoints/7": ("state",),
            f"/v1/dataset-records/{self.version}": ("workflow_input", "ground_truth"),
            "/v1/datasets/ds/records?include=workflow_input,ground_truth": ("workflow_input", "ground_truth"),
            "/v1/evolution-runs/r/generations/last-completed": ("checkpoint",),
            "/v1/conversations/checkpoint?path=c": ("data",),
            "/v1/documents/c/d/revisions?include=body": ("body",),
        }


def shows(content: bytes, member: str, payload: bytes) -> int:
    """How often a member with exactly this text, and nothing behind it but the next member or the end, is there."""
    start = b'"%b":%b' % (member.encode(), payload)
    return content.count(start + b",") + content.count(start + b"}")


def batch(*operations: tuple[str, str, bytes | None]) -> bytes:
    """The body of a batch, with the bodies of its operations as they are."""
    parts = [
        b'{"method":"%b","path":"%b"%b}' % (method.encode(), path.encode(), b"" if body is None else b',"body":' + body)
        for method, path, body in operations
    ]
    return b'{"operations":[' + b",".join(parts) + b"]}"


async def check_reads(client: httpx.AsyncClient, record: Record, payload: bytes) -> None:
    """Each read alone, all in a batch, and the trace, where each payload stands in its place once."""
    for path, members in record.reads().items():
        answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        for member in members:
            assert shows(answer.content, member, payload) == 1, (path, member)
    for path in (
        f"/v1/versions/{record.version}/dsl",
        f"/v1/versions/{record.version}/io",
        "/v1/evolution-runs/r/checkpoint",
        "/v1/documents/c/d",
    ):
        assert (await client.get(path)).content == payload
    found = await send(client, "POST", "/v1/documents/c/query", b'{"include":["body"]}')
    assert shows(found.content, "body", payload) == 1
    together = await send(client, "POST", "/v1/batch", batch(*(("GET", path, None) for path in record.reads())))
    assert together.status_code == 200, together.text
    for member in MEMBERS:
        wanted = sum(members.count(member) for members in record.reads().values())
        assert shows(together.content, member, payload) == wanted, member
    trace = await client.get(f"{record.path}/trace")
    assert trace.status_code == 200, trace.text
    found = {name: shows(trace.content, name, payload) for name in ("dsl", "input", "output", "fitness", "payload")}
    assert found == {"dsl": 1, "input": 2, "output": 3, "fitness": 1, "payload": 1}


@pytest.mark.parametrize("how", ["one by one", "in a batch"])
@pytest.mark.parametrize("name", PAYLOADS)
async def test_every_payload_comes_back_exactly_on_every_path(client: httpx.AsyncClient, name: str, how: str) -> None:
    record, payload = Record(f"v-{uuid.uuid4().hex}", "i"), PAYLOADS[name]
    if how == "in a batch":
        answer = await send(client, "POST", "/v1/batch", batch(*record.writes(payload)))
        assert answer.status_code == 200, answer.text
    else:
        for method, path, body in record.writes(payload):
            answer = await send(client, method, path, body)
            assert answer.status_code in OK, answer.text
            for member in MEMBERS:
                assert shows(answer.content, member, payload) == 0, "an answer to a write leaves payloads out"
    await check_reads(client, record, payload)


@pytest.mark.parametrize("name", PAYLOADS)
async def test_every_payload_is_in_the_events_that_are_asked_for_it(
    client: httpx.AsyncClient, service: Service, name: str
) -> None:
    record, payload = Record(f"v-{uuid.uuid4().hex}", "i"), PAYLOADS[name]
    for method, path, body in record.writes(payload):
        assert (await send(client, method, path, body)).status_code in OK
    await drain(sequencer(lambda _waited: None), service.ground.database)
    plain = await client.get("/v1/events?limit=100")
    asked = await client.get("/v1/events?limit=100&include=dsl,input,output,fitness,body")
    types = [event["type"] for event in plain.json()["items"]]
    shown = {
        "dsl": types.count("version.created"),
        "input": types.count("invocation.started") + types.count("invocation.ended"),
        "fitness": types.count("invocation.started") + types.count("invocation.ended"),
        "output": sum(types.count(f"{kind}.{what}") for kind in ("invocation", "node_invocation")
                      for what in ("started", "ended")),
        "body": types.count("document.created") + types.count("document.updated"),
    }  # fmt: skip
    assert min(shown.values()) > 0
    for member, times in shown.items():
        assert shows(plain.content, member, payload) == 0, "an event leaves payloads out unless it is asked for them"
        assert shows(asked.content, member, payload) == times, member


@pytest.mark.parametrize("name", PAYLOADS)
async def test_every_payload_is_in_the_answer_to_its_write_and_in_the_replay_when_asked_for(
    client: httpx.AsyncClient, name: str
) -> None:
    record, payload = Record(f"v-{uuid.uuid4().hex}", "i"), PAYLOADS[name]
    members = [("dsl",), None, ("input", "fitness"), (), ("input", "output"), ("payload",), ("output",), ("output",),
               ("state",), ("workflow_input", "ground_truth"), (), (), (), (), (), ("body",), ("body",)]  # fmt: skip
    for place, ((method, path, body), shown) in enumerate(zip(record.writes(payload), members, strict=True)):
        asked = f"{path}?include={','.join(shown)}" if shown else path
        first = await send(client, method, asked, body, **{"idempotency-key": f"k{place}"})
        again = await send(client, method, asked, body, **{"idempotency-key": f"k{place}"})
        assert first.status_code in OK, first.text
        assert again.headers["idempotency-replayed"] == "true"
        assert again.content == first.content
        for member in shown or ():
            assert shows(first.content, member, payload) == 1, (path, member)


async def test_a_string_of_twenty_megabytes_comes_back_exactly(client: httpx.AsyncClient) -> None:
    assert len(BIG) > 20_000_000
    record = Record("v", "i")
    for method, path, body in record.writes(b"null"):
        assert (await send(client, method, path, body.replace(b'"dsl":null', b'"dsl":%b' % BIG))).status_code in OK
    message = b'{"id":"m2","role":"r","payload":%b}' % BIG
    first = await send(client, "POST", f"{record.path}/messages?include=payload", message, **{"idempotency-key": "k"})
    again = await send(client, "POST", f"{record.path}/messages?include=payload", message, **{"idempotency-key": "k"})
    assert first.status_code == again.status_code == 201
    assert first.content == again.content
    operations = batch(("PUT", "/v1/versions/v/io", BIG), ("GET", f"{record.path}/messages/m2?include=payload", None))
    together = await send(client, "POST", "/v1/batch", operations)
    assert together.status_code == 200, together.text[:500]
    for content in (
        first.content,
        together.content,
        (await client.get(f"{record.path}/messages?include=payload")).content,
        (await client.get(f"{record.path}/trace")).content,
    ):
        assert shows(content, "payload", BIG) == 1
    assert (await client.get("/v1/versions/v/io")).content == BIG
    assert (await client.get("/v1/versions/v/dsl")).content == BIG
