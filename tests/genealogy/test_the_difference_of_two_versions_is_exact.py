"""The patch between two DSLs makes the one the other, digit for digit, within bounds."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonpatch import JsonPatch

from app.genealogy.difference import difference
from app.genealogy.errors import DifferenceTooLarge
from app.http.service import Service
from app.main import RECURSION_MIN
from tests.conftest import Make
from tests.payloads import PAYLOADS, problem, send

NUMBERS = ["0", "-0", "0.0", "1", "1.0", "1e0", "1e400", "-1E-400", "9007199254740993", "9" * 5000, "0.10", "0.1"]
NAMES = st.sampled_from(["", "a", "b", "~", "/", "~1", "0", "-", "é", "\ud83d", "\x00"]) | st.text(max_size=3)


class Digits(str):
    """A number as it is written."""

    __slots__ = ()


def dumped(value: Any) -> str:
    """JSON, with numbers as they are written."""
    if isinstance(value, Digits):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(map(dumped, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}: {dumped(item)}" for name, item in value.items()) + "}"
    return json.dumps(value)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from(NUMBERS).map(Digits)
    | st.sampled_from(["", "1", "true", '"', "\ud83d", "\ude00", "é"])
    | st.text(st.characters(), max_size=4),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)


@pytest.fixture(autouse=True)
def frames() -> Iterator[None]:
    """As many frames as the service gives itself."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, RECURSION_MIN))
    yield
    sys.setrecursionlimit(before)


def read(text: bytes) -> Any:
    """JSON with each number as something that equals nothing but itself as it is written."""
    return json.loads(text, parse_int=lambda digits: f"number {digits}", parse_float=lambda digits: f"number {digits}")


def applied(old: bytes, patch: bytes) -> Any:
    """The old value with the patch applied."""
    return JsonPatch(read(patch)).apply(read(old))


def assert_exact(old: bytes, new: bytes) -> None:
    patch = difference(old, new)
    # `True == 1` in Python; here no number is one, so equal means equal.
    assert applied(old, patch) == read(new)
    assert {operation["op"] for operation in read(patch)} <= {"add", "remove", "replace"}


@settings(max_examples=300, deadline=None)
@given(old=VALUES, new=VALUES)
@example(old=[True], new=[Digits("1")])
@example(old={"a": [Digits("1"), Digits("1.0")]}, new={"a": [Digits("1.0"), Digits("1")]})
def test_the_patch_makes_the_one_the_other(old: Any, new: Any) -> None:
    assert_exact(dumped(old).encode(), dumped(new).encode())


@settings(max_examples=100, deadline=None)
@given(value=VALUES)
def test_the_same_value_differs_in_nothing_however_it_is_spelled(value: Any) -> None:
    assert difference(dumped(value).encode(), dumped(value).replace(": ", ":").encode()) == b"[]"


def test_a_long_array_is_replaced_whole_and_a_short_one_item_by_item() -> None:
    short, long = list(range(10)), list(range(2000))
    assert read(difference(json.dumps(short).encode(), json.dumps([*short, 10]).encode())) == [
        {"op": "add", "path": "/10", "value": "number 10"}
    ]
    patch = difference(json.dumps({"a": long}).encode(), json.dumps({"a": [*long, "new"]}).encode())
    assert [(one["op"], one["path"]) for one in read(patch)] == [("replace", "/a")]


@pytest.mark.parametrize("old", PAYLOADS)
def test_every_payload_is_reached_from_every_other(old: str) -> None:
    for new in PAYLOADS.values():
        assert_exact(PAYLOADS[old], new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"[" * 510 + b"1" + b"]" * 510, b"[" * 510 + b"1.0" + b"]" * 510),
        (b'{"a":' * 510 + b"1" + b"}" * 510, b'{"a":' * 510 + b"1.0" + b"}" * 510),
        (json.dumps(["x" * 4_000_000]).encode(), json.dumps(["y" * 4_000_000]).encode()),
        (json.dumps(list(range(50_000))).encode(), json.dumps([n * 7 % 50_000 for n in range(50_000)]).encode()),
        (json.dumps(list(range(999))).encode(), json.dumps([n * 7 % 999 for n in range(1000)]).encode()),
        (
            json.dumps([[n * 7 % 999 for n in range(999)]] * 4).encode(),
            json.dumps([list(range(1000))] * 4).encode(),
        ),
        (
            json.dumps([[n * 7 % 99 for n in range(99)]] * 500).encode(),
            json.dumps([[n + k for n in range(100)] for k in range(500)]).encode(),
        ),
        (json.dumps(["a", "b"] * 25_000).encode(), json.dumps(["b", "c", "a"] * 16_000).encode()),
        (
            json.dumps({str(n): n for n in range(40_000)}).encode(),
            json.dumps({str(-n): n for n in range(40_000)}).encode(),
        ),
        (b"[" * 300 + b"1" + b",2]" * 300, b"[" * 300 + b"1" + b",3]" * 300),
        (b"[" * 500 + json.dumps("x" * 2000).encode() + b"]" * 500, b"[" * 500 + b"1" + b"]" * 500),
        (b"[" * 511 + b"1" + b",2]" * 511, b"[" * 511 + b"1" + b",3]" * 511),
        (b"[" + b"[],[1]," * 200_000 + b"1]", b"[2]"),
    ],
)
def test_whatever_is_compared_ends_within_bounds_or_is_refused(old: bytes, new: bytes) -> None:
    started = time.thread_time()
    patch = None
    with suppress(DifferenceTooLarge):
        patch = difference(old, new)
    # It takes two seconds at most where this was measured; the bound tells squares from cubes.
    assert time.thread_time() - started < 10
    assert patch is None or applied(old, patch) == read(new)


async def diff(client: httpx.AsyncClient, make: Make, old: bytes, new: bytes) -> httpx.Response:
    """The difference of two versions with these DSLs."""
    await make.workflow(id="w")
    for name, dsl in ((b"a", old), (b"b/ ", new)):
        made = await send(client, "POST", "/v1/workflows/w/versions", b'{"id":"%b","dsl":%b}' % (name, dsl))
        assert made.status_code in (200, 201), made.text
    return await client.get("/v1/versions/a/diff/b%2F%20")


async def test_the_difference_is_answered_with_exact_numbers(
    client: httpx.AsyncClient, other: httpx.AsyncClient, make: Make
) -> None:
    answer = await diff(client, make, b'{"x":1,"y":[1e400,true]}', b'{"x":1.0,"y":[1e400,1],"z":{"n":-0}}')
    assert answer.status_code == 200
    start, _, patch = answer.content.partition(b'"patch":')
    assert start == b'{"from":"a","to":"b/ ",'
    assert set(patch[1:-2].replace(b"},{", b"}\n{").split(b"\n")) == {
        b'{"op":"add","path":"/z","value":{"n":-0}}',
        b'{"op":"replace","path":"/x","value":1.0}',
        b'{"op":"replace","path":"/y/1","value":1}',
    }
    assert (await client.get("/v1/versions/a/diff/a")).json() == {"from": "a", "to": "a", "patch": []}
    assert (await client.head("/v1/versions/a/diff/a")).status_code == 200
    for path in ("a/diff/none", "none/diff/a", "none/diff/none"):
        assert problem(await client.get(f"/v1/versions/{path}")) == (404, "version_not_found")
    assert problem(await other.get("/v1/versions/a/diff/a")) == (404, "version_not_found")


async def test_what_is_too_large_or_too_deep_to_compare_is_refused(client: httpx.AsyncClient, make: Make) -> None:
    large = await diff(client, make, b'"' + b"x" * 20_000_000 + b'"', b"1")
    assert problem(large) == (422, "difference_too_large")
    assert large.json()["size_max_bytes"] == 8 * 1024 * 1024


async def test_a_dsl_as_deep_as_may_be_is_compared_or_refused(client: httpx.AsyncClient, make: Make) -> None:
    deep = await diff(client, make, b"[" * 512 + b"]" * 512, b"[" * 511 + b"]" * 511)
    assert deep.status_code == 200 or problem(deep) == (422, "difference_too_large")


async def test_a_queue_of_differences_has_an_end(
    client: httpx.AsyncClient, service: Service, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    await diff(client, make, b"[1]", b"[2]")
    monkeypatch.setattr(service.ground.comparing, "waiting_max", 0)
    refused = await client.get("/v1/versions/a/diff/b%2F%20")
    assert problem(refused) == (503, "unavailable")
    assert "retry-after" in refused.headers
