"""One API process: its memory while idle, and while the largest payloads pass through it, in and out."""

from __future__ import annotations

import asyncio
import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest

from benchmarks.ground import new_key, post, service_process
from benchmarks.process import Server, forget_peak, peak_bytes, resident_bytes
from tests.conftest import ADMIN_KEY

MIB = 1024 * 1024
IDLE_MAX = 200 * MIB
# Of raw bytes it has a few chunks in its hands, however many there are.
RAW_SIZE, RAW_MAX = 192 * MIB, 48 * MIB
# The body, the payload cut from it, and what the driver builds of it; the rest is the process's own noise.
TIMES_MAX = 4.5
SIZE = 64 * MIB - 1024
SMALL = b'{"k":1,"s":"\\n","e":[]}'
PAYLOADS = {
    "one string": b'"' + b"x" * SIZE + b'"',
    "a string with an emoji": b'"' + b"x" * SIZE + "😀".encode() + b'"',
    "many small values and half an emoji": b'["\\ud83d",' + b",".join([SMALL] * (SIZE // (len(SMALL) + 1))) + b"]",
}


@dataclass(frozen=True)
class Alone:
    """A service process of its own, and a key of a tenant with one running invocation."""

    server: Server
    key: str

    def send(self, path: str, body: bytes) -> bytes:
        """What a POST answers; it must succeed."""
        return self._ask(urllib.request.Request(self.server.url + path, body, {"Content-Type": "application/json"}))

    def put(self, path: str, body: bytes) -> bytes:
        """What a PUT of raw bytes answers."""
        return self._ask(urllib.request.Request(self.server.url + path, body, method="PUT"))

    def read(self, path: str) -> bytes:
        """What a GET answers."""
        return self._ask(urllib.request.Request(self.server.url + path))

    def _ask(self, request: urllib.request.Request) -> bytes:
        request.add_header("Authorization", f"Bearer {self.key}")
        with urllib.request.urlopen(request, timeout=100) as answer:
            content: bytes = answer.read()
        return content


@pytest.fixture(scope="module")
def alone(kept_clone: Callable[[], Awaitable[str]]) -> Iterator[Alone]:
    """Started for this file, so that no other test's memory is measured."""
    with service_process(asyncio.run(_made(kept_clone)), ADMIN_KEY) as server:
        key = new_key(server.url, ADMIN_KEY, "large")
        post(
            server.url, "/v1/workflows/w/versions", {"id": "v", "dsl": 1, "operation": "init", "workflow": {}},
            Authorization=f"Bearer {key}",
        )  # fmt: skip
        post(server.url, "/v1/invocations", {"id": "i", "version_id": "v"}, Authorization=f"Bearer {key}")
        conversation = {"path": "p", "identity": {"agent_name": "a", "instance_id": "i"}}
        post(server.url, "/v1/conversations", conversation, "PUT", Authorization=f"Bearer {key}")
        yield Alone(server, key)


async def _made(clone: Callable[[], Awaitable[str]]) -> str:
    return await clone()


def test_an_idle_api_process_needs_less_than_200_mib(alone: Alone) -> None:
    assert resident_bytes(alone.server.pid) < IDLE_MAX


@pytest.mark.parametrize("kind", PAYLOADS)
def test_a_payload_as_large_as_a_body_may_be_needs_about_four_times_its_size(alone: Alone, kind: str) -> None:
    payload, pid, name = PAYLOADS[kind], alone.server.pid, kind.replace(" ", "-")
    bound = TIMES_MAX * len(payload)
    before = resident_bytes(pid)
    forget_peak(pid)
    alone.send("/v1/invocations/i/messages", b'{"id":"%s","role":"data","payload":%s}' % (name.encode(), payload))
    assert peak_bytes(pid) - before < bound
    before = resident_bytes(pid)
    forget_peak(pid)
    read = alone.read(f"/v1/invocations/i/messages/{name}")
    assert peak_bytes(pid) - before < bound
    assert payload in read


def test_raw_bytes_pass_through_in_parts_both_ways(alone: Alone) -> None:
    content, pid = bytes(range(256)) * (RAW_SIZE // 256), alone.server.pid
    which = {"path": "p", "id": "a", "conversation_id": "c"}
    said = {"mime_type": "x/y", "size": len(content), "digest": hashlib.sha256(content).hexdigest()}
    before = resident_bytes(pid)
    forget_peak(pid)
    alone.put(f"/v1/attachments?{urlencode({**which, **said})}", content)
    assert peak_bytes(pid) - before < RAW_MAX
    before = resident_bytes(pid)
    forget_peak(pid)
    read = alone.read(f"/v1/attachments?{urlencode(which)}")
    assert peak_bytes(pid) - before < RAW_MAX
    assert read == content


@pytest.mark.parametrize("kind", PAYLOADS)
def test_an_append_and_its_read_need_about_four_times_its_size(alone: Alone, kind: str) -> None:
    payload, pid = PAYLOADS[kind], alone.server.pid
    bound = TIMES_MAX * len(payload)
    claim = json.loads(alone.send("/v1/conversations/acquire", b'{"path":"p","producer_id":"p"}'))
    head = {
        "path": "p",
        "producer_id": "p",
        "producer_epoch": claim["producer_epoch"],
        "incarnation": claim["incarnation"],
        "producer_sequence": 0,
    }
    before = resident_bytes(pid)
    forget_peak(pid)
    body = json.dumps(head).encode()[:-1] + b',"records":[{"x":%b}]}' % payload
    offset = json.loads(alone.send("/v1/conversations/append", body))["offset"]
    assert peak_bytes(pid) - before < bound
    before = resident_bytes(pid)
    forget_peak(pid)
    read = alone.read("/v1/conversations/read?path=p&before=now&limit=1")
    assert peak_bytes(pid) - before < bound
    assert read.startswith(b'{"batches":[{"offset":"%b","records":[{"x":%b}]}]' % (offset.encode(), payload))


def test_a_batch_of_countless_tiny_records_is_refused_without_being_built(alone: Alone) -> None:
    body = b'{"path":"p","producer_id":"p","producer_epoch":1,"incarnation":"i","producer_sequence":0,"records":[%b]}'
    for record in (b"{}", b"1", b'{"a":1}'):
        # Half of what a body may be: to read it takes seconds, and what is bounded is how often it is held.
        text = body % b",".join([record] * (SIZE // 2 // (len(record) + 1)))
        before = resident_bytes(alone.server.pid)
        forget_peak(alone.server.pid)
        with pytest.raises(urllib.error.HTTPError, match="422"):
            alone.send("/v1/conversations/append", text)
        assert peak_bytes(alone.server.pid) - before < TIMES_MAX * len(text)
