"""What lies in the object store is held against its digest: damage is an error, and the bytes sent again mend it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from app.http.service import Service
from tests.artifacts.artifacts import MIB, files_of, folder_of, hash_of, sample, store
from tests.payloads import problem


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[9] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


DAMAGE: dict[str, Callable[[Path], None]] = {"a byte": flipped, "a byte less": cut, "all of it": Path.unlink}


@pytest.mark.parametrize("kind", DAMAGE)
async def test_damage_is_an_error_before_the_first_byte(client: httpx.AsyncClient, service: Service, kind: str) -> None:
    content = sample(5000)
    await store(client, content)
    DAMAGE[kind](folder_of(service) / client.headers["x-test-tenant"] / hash_of(content))
    path = f"/v1/artifacts/{hash_of(content)}"
    for headers in ({}, {"range": "bytes=0-99"}):
        assert problem(await client.get(path, headers=headers)) == (500, "artifact_integrity")
    if kind != "a byte":
        assert (await store(client, content)).status_code == 200
        assert (await client.get(path)).content == content


async def test_of_a_later_part_nothing_false_is_sent(client: httpx.AsyncClient, service: Service) -> None:
    content = sample(6 * MIB)
    await store(client, content)
    file = folder_of(service) / client.headers["x-test-tenant"] / hash_of(content)
    file.write_bytes(content[: 5 * MIB] + b"x" + content[5 * MIB + 1 :])
    path = f"/v1/artifacts/{hash_of(content)}"
    found = await client.get(path)
    assert len(found.content) <= 5 * MIB < int(found.headers["content-length"])
    sound = await client.get(path, headers={"range": f"bytes=7-{5 * MIB - 1}"})
    assert (sound.status_code, sound.content == content[7 : 5 * MIB]) == (206, True)


async def test_a_repeat_under_one_key_is_one_effect(client: httpx.AsyncClient, service: Service) -> None:
    first, again = [await store(client, b"x", headers={"idempotency-key": "k"}) for _ in range(2)]
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    other = await store(client, b"y", headers={"idempotency-key": "k"})
    assert problem(other) == (422, "idempotency_key_reused")
    assert (await client.get(f"/v1/artifacts/{hash_of(b'y')}")).status_code == 404


async def test_nothing_can_be_read_of_what_a_stale_attempt_sends(client: httpx.AsyncClient, service: Service) -> None:
    refused = await store(client, b"x", headers={"submission-attempt": "s;a"})
    assert problem(refused) == (409, "stale_attempt")
    assert (await client.get(f"/v1/artifacts/{hash_of(b'x')}")).status_code == 404
    assert files_of(client, service) == []
