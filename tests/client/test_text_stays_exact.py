"""Verbatim fields are sent and read as exact text; money keeps its digits; paths keep their ids."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from urllib.parse import unquote

import pytest

from app.client import AsyncCairn, Cairn, Json
from app.client.exact import dump, elements, members
from app.client.models import Invocation, Trace
from tests.client.conftest import QUICK, ScriptedServer

HOSTILE = [
    rb'"\u0000"',
    rb'"cut \ud83d here"',
    rb'["\udc00\ud800", 1]',
    b"1e400",
    b"9223372036854775809",
    b"1.0",
    b'{"b":1,  "a":\t[ 1.0 ,1.00 ]}',
    b'{"a":1,"a":2}',
    b"[" * 500 + b"]" * 500,
    b"1" * 5000,
    '"Zoë 🦋 \u2028"'.encode(),
    b"null",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:20].decode())
def test_hostile_text_is_sent_and_read_byte_for_byte(server: ScriptedServer, text: bytes) -> None:
    server.will_answer(201, b'{"id":"m1", "payload" : ' + text + b' ,"seq":1}')
    with Cairn(server.url) as cairn:
        message = cairn.messages.record("inv_1", role="user", payload=Json(text), include=["payload"])
    assert server.asked[0].body == b'{"role":"user","payload":' + text + b"}"
    assert server.asked[0].target == "/v1/invocations/inv_1/messages?include=payload"
    assert message["payload"] == Json(text)
    assert message.raw("payload").data == text
    assert message.seq == 1


def test_text_that_is_not_one_json_value_is_refused_before_it_is_sent() -> None:
    for text in ("", "nan", "NaN", "1 2", '1,"status":"completed"', "{", "'a'", "[1,]", b'"\xff"', '"\ud800" 1'):
        with pytest.raises(ValueError, match=r".*"):
            Json(text)


def test_space_around_a_value_is_no_part_of_it() -> None:
    assert Json(' {"a": 1}\n').text == '{"a": 1}'


def test_a_large_payload_is_spliced_and_not_parsed_for_long(server: ScriptedServer) -> None:
    text = b'"' + b"x" * 20_000_000 + b'"'
    server.will_answer(200, b'{"id":"inv_1","output":' + text + b"}")
    with Cairn(server.url) as cairn:
        ended = cairn.invocations.end("inv_1", status="completed", output=Json(text), include=["output"])
    assert ended.output is not None
    assert ended.output.data == text


def test_money_keeps_every_digit_both_ways(server: ScriptedServer) -> None:
    server.will_answer(200, b'{"id":"inv_1","usd_cost":12345678901234567890.123456789012345678,"fitness_score":0.82}')
    with Cairn(server.url) as cairn:
        ended = cairn.invocations.patch("inv_1", usd_cost=Decimal("0.100000000000000001"), fitness_score=0.82)
    assert server.asked[0].body == b'{"usd_cost":0.100000000000000001,"fitness_score":0.82}'
    assert ended.usd_cost == Decimal("12345678901234567890.123456789012345678")
    assert ended["usd_cost"] == ended.usd_cost
    assert ended.fitness_score == 0.82


def test_a_field_left_out_is_not_sent_and_none_is_sent_as_null(server: ScriptedServer) -> None:
    server.will_answer(200, {"id": "wf_1", "description": None})
    with Cairn(server.url) as cairn:
        workflow = cairn.workflows.patch("wf_1", description=None)
    assert server.asked[0].body == b'{"description":null}'
    assert workflow.description is None
    assert workflow.name is None


def test_instants_are_sent_in_utc_and_naive_ones_are_refused() -> None:
    moment = datetime(2026, 1, 5, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    assert dump({"at": moment}) == b'{"at":"2026-01-05T10:00:00.123456Z"}'
    with pytest.raises(ValueError, match="time zone"):
        dump({"at": datetime(2026, 1, 5)})  # noqa: DTZ001 - the naive time is the case
    assert Invocation(b'{"started_at":"2026-01-05T10:00:00.123456Z"}').started_at == moment.astimezone(UTC)


def test_numbers_that_json_cannot_hold_are_refused() -> None:
    for number in (float("nan"), float("inf"), Decimal("NaN"), Decimal("Infinity")):
        with pytest.raises(ValueError, match=r".*"):
            dump(number)


def test_a_trace_reads_as_typed_records_with_exact_payloads_inside() -> None:
    text = (
        rb'{"invocation":{"id":"i","input": {"q": "\ud800"}},"version":{"id":"v","dsl":[1.0]},"nodes":[{"id":"n",'
        rb'"node_version":null,"actions":[{"id":"a","tool":"bash","input":"ls\u0000"}],"messages_in":["m"],'
        rb'"messages_out":[]}],"messages":[{"id":"m","seq":1,"payload":1.50}]}'
    )
    trace = Trace(text)
    assert trace.invocation.input == Json(rb'{"q": "\ud800"}')
    assert trace.version.dsl == Json("[1.0]")
    assert trace.nodes[0].node_version is None
    assert trace.nodes[0].actions[0].input == Json(rb'"ls\u0000"')
    assert trace.nodes[0].messages_in == ["m"]
    assert trace.raw("messages", 0, "payload").text == "1.50"
    with pytest.raises(KeyError):
        trace.raw("messages", 0, "nothing")


def test_an_undeclared_member_is_readable_and_an_undeclared_attribute_is_an_error() -> None:
    record = Invocation(b'{"id":"i","new_thing":1.10}')
    assert record["new_thing"] == Decimal("1.10")
    assert dict(record) == {"id": "i", "new_thing": Decimal("1.10")}
    with pytest.raises(AttributeError, match="new_thing"):
        record.new_thing  # type: ignore[attr-defined]  # noqa: B018 - reading is the case


@pytest.mark.parametrize("space", [b"", b" ", b"\n\t "])
def test_slices_are_the_same_whichever_parser_finds_them(space: bytes) -> None:
    for text in HOSTILE:
        with_surrogate = space.join([b"{", b'"s"', b":", rb'"\ud800"', b",", b'"v"', b":", text, b"}"])
        assert members(with_surrogate)["v"] == text
        assert elements(space.join([b"[", rb'"\ud800"', b",", text, b"]"]))[1] == text
    for empty, cut in ((b"{}", members), (b"[]", elements)):
        assert not cut(empty)
    for broken in (b'{"s":"\\ud800" "v":1}', b'{"s":"\\ud800"', b"[1]"):
        with pytest.raises(ValueError, match=r".*"):
            members(broken)


@pytest.mark.parametrize("name", ["a/versions", "..", ".", "%", 'a b?c#d[e"', "ünï", "wf:1"])
async def test_an_id_may_hold_anything(server: ScriptedServer, name: str) -> None:
    server.will_answer(200, {"id": name})
    server.will_answer(200, {"id": name})
    with Cairn(server.url, retry=QUICK) as cairn:
        cairn.workflows.get(name)
    async with AsyncCairn(server.url, retry=QUICK) as cairn:
        await cairn.workflows.get(name)
    for asked in server.asked:
        assert asked.target.count("/") == 3
        assert unquote(asked.target.rpartition("/")[2]) == name


def test_the_client_imports_nothing_of_the_server() -> None:
    code = "import sys, app.client; print(*sorted(n for n in sys.modules if n.startswith('app')))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert all(name == "app" or name.startswith("app.client") for name in printed)
