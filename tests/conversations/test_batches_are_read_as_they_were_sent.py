"""Records come back byte for byte; pages forward and backward give every batch once, and end by number and by size."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.conversations import reads
from app.conversations.offsets import offset_of
from app.conversations.reads import PAGE_BYTES_MAX, Batches
from app.conversations.records import MANY, RECORDS_MAX, Records, _batch
from app.errors import InvalidInput
from app.http.service import Service
from tests.conversations.streams import Queue, Stream, created, offset
from tests.payloads import PAYLOADS, problem

MIB = 1024 * 1024


@pytest.mark.parametrize("name", PAYLOADS)
async def test_a_record_comes_back_exactly(client: httpx.AsyncClient, stream: Stream, queue: Queue, name: str) -> None:
    attempt = await queue.runs()
    # A payload may nest to the limit, which here counts from the array of records.
    payload = PAYLOADS[name] if name != "deep" else PAYLOADS[name][2:-2]
    member = b'"x" : %b' % payload
    records = b'[ {"id":"r",%b , "submissionId":"sub","attemptId":"att"},\n{%b}]' % (member, member)
    answer = await stream.append(records, submission=attempt)
    assert answer.status_code == 200, answer.text
    again = await stream.append(records, 0, submission=attempt)
    assert again.content == answer.content
    for query in ("", "&before=now", "&offset=-1&limit=1"):
        shown = await client.get(f"/v1/conversations/read?path={stream.path}{query}")
        assert shown.content.startswith(b'{"batches":[{"offset":"%b","records":%b}]' % (offset(0).encode(), records))


@pytest.mark.parametrize(
    "record",
    [b'{"a":"\\ud800","submissionId":"s\\u0075b","attemptId":"att"}',
     b'{"\\udfff":1,"submissionId":"sub","attemptId":"att"}',
     b'{"a":"\\ud83d\\ude00\\\\\\ud800","submissionId":"sub","attemptId":"att"}'],
)  # fmt: skip
def test_lone_surrogates_hide_no_owner(record: bytes) -> None:
    (owner,) = _batch(Records(b"[%b]" % record)).owners
    assert (owner.submission_id, owner.attempt_id) == ("sub", "att")


async def test_thirty_six_mebibytes_come_back_and_the_next_append_follows(
    client: httpx.AsyncClient, stream: Stream
) -> None:
    # Twelve Mi characters, each of three bytes.
    records = b'[{"id":"r","text":"' + "€".encode() * (12 * MIB - 64) + b'"}]'
    assert len(records) > 35 * MIB
    answer = await stream.append(records, 0)
    assert answer.status_code == 200, answer.text
    assert (await stream.append(records, 0)).content == answer.content
    changed = records.replace("€".encode(), "§x".encode(), 1)
    assert problem(await stream.append(changed, 0)) == (409, "sequence_conflict")
    assert (await stream.append(b'[{"a":1}]', 1)).status_code == 200
    shown = await client.get("/v1/conversations/read", params={"path": stream.path})
    # One batch always fits; the second would make the page larger than it may be.
    assert shown.content == b'{"batches":[{"offset":"%b","records":%b}],"next_offset":"%b","up_to_date":false}' % (
        offset(0).encode(), records, offset(0).encode(),
    )  # fmt: skip


async def test_a_page_ends_at_sixteen_mebibytes_in_either_direction(stream: Stream) -> None:
    records = b'[{"text":"' + b"x" * (6 * MIB) + b'"}]'
    for _ in range(5):
        assert (await stream.append(records)).status_code == 200
    assert 2 * len(records) < PAGE_BYTES_MAX < 3 * len(records)
    for way, order in (("offset", [0, 1, 2, 3, 4]), ("before", [4, 3, 2, 1, 0])):
        place, pages = "-1" if way == "offset" else "now", []
        while True:
            page = await stream.read(**{way: place})
            pages.append([batch["offset"] for batch in page["batches"]])
            place = page["next_offset"]
            if page["up_to_date"]:
                break
        assert pages == [[offset(n) for n in order[start : start + 2]] for start in (0, 2, 4)]


async def test_every_page_size_gives_every_batch_once_in_either_direction(stream: Stream) -> None:
    count = 13
    for number in range(count):
        await stream.append(b'[{"n":%d}]' % number)
    everything = list(range(count))

    async def walked(way: str, start: str, limit: int) -> list[int]:
        found, place = [], start
        for _ in range(count + 2):
            page = await stream.read(**{way: place, "limit": limit})
            assert len(page["batches"]) <= limit
            found += [batch["records"][0]["n"] for batch in page["batches"]]
            if page["batches"]:
                assert page["next_offset"] == page["batches"][-1]["offset"]
            place = page["next_offset"]
            if page["up_to_date"]:
                return found
        raise AssertionError("the pages do not end")

    for limit in range(1, count + 2):
        assert await walked("offset", "-1", limit) == everything
        assert await walked("before", "now", limit) == everything[::-1]
        for start in (0, 5, count - 1):
            assert await walked("offset", offset(start), limit) == everything[start + 1 :]
            assert await walked("before", offset(start), limit) == everything[:start][::-1]


async def test_now_answers_the_head_and_nothing_else(stream: Stream) -> None:
    assert await stream.read(offset="now") == {"batches": [], "next_offset": "-1", "up_to_date": True}
    await stream.append()
    await stream.append()
    assert await stream.read(offset="now") == {"batches": [], "next_offset": offset(1), "up_to_date": True}
    assert await stream.read(offset=offset(1)) == {"batches": [], "next_offset": offset(1), "up_to_date": True}


async def test_offsets_beyond_the_head_and_texts_that_are_none_are_refused(
    client: httpx.AsyncClient, stream: Stream
) -> None:
    await stream.append()
    for way in ("offset", "before"):
        for beyond in (offset(1), "0_1", "0_99999999999999999999999999"):
            refused = await client.get("/v1/conversations/read", params={"path": stream.path, way: beyond})
            assert (problem(refused), refused.json()["head"]) == ((409, "offset_beyond_head"), offset(0))
        for text in ("", "-2", "x", "0", "0_", "_0", "1_-1", "now ", "0_1_2", "٠_٠", "0_" + "1" * 5000):
            refused = await client.get("/v1/conversations/read", params={"path": stream.path, way: text})
            assert problem(refused) == (400, "bad_offset"), text
    assert (await stream.read(offset="7_0"))["batches"] == []
    for query in ("limit=0", "limit=1001", "limit=x", "offset=-1&before=now", "unknown=1"):
        refused = await client.get(f"/v1/conversations/read?path={stream.path}&{query}")
        assert problem(refused) == (422, "invalid_input"), query


async def test_a_checkpoint_is_kept_and_the_last_write_stays(client: httpx.AsyncClient) -> None:
    at = {"path": "agents/echo/i1"}
    call = "/v1/conversations/checkpoint"
    assert problem(await client.get(call, params=at)) == (404, "conversation_checkpoint_not_found")
    body = b'{"offset":"%b","incarnation":"i","format_version":3,"data":"\\u0000 \\ud800 {\\"a\\":1.0}"}'
    headers = {"content-type": "application/json"}
    for number, status in ((4, 201), (9, 200)):
        text = body % offset(number).encode()
        put = await client.put(call, params=at, content=text, headers=headers)
        assert (put.status_code, put.headers["etag"]) == (status, f'"{number // 4}"')
        assert b"data" not in put.content
        got = await client.get(call, params={**at, "at_or_before": offset(number)})
        assert got.headers["etag"] == put.headers["etag"]
        assert b'"data":"\\u0000 \\ud800 {\\"a\\":1.0}"' in got.content
        assert (got.json()["offset"], got.json()["format_version"]) == (offset(number), 3)
        later = await client.get(call, params={**at, "at_or_before": offset(number - 1)})
        assert problem(later) == (404, "conversation_checkpoint_not_found")
    stale = await client.put(call, params=at, content=text, headers={**headers, "if-match": '"1"'})
    assert (problem(stale), stale.json()["current_etag"]) == ((412, "precondition_failed"), '"2"')
    current = await client.put(call, params=at, content=text, headers={**headers, "if-match": '"2"'})
    assert (current.status_code, current.headers["etag"]) == (200, '"3"')
    absent = await client.put(call, params={"path": "q"}, content=text, headers={**headers, "if-match": "*"})
    assert problem(absent) == (412, "precondition_failed")
    bad = await client.put(call, params=at, content=text.replace(b"0000_", b"-"), headers=headers)
    assert problem(bad) == (400, "bad_offset")
    # One that would come back as another, since no batch can have it.
    beyond = await client.put(call, params=at, content=body % b"0_12345678901234567", headers=headers)
    assert problem(beyond) == (400, "bad_offset")
    highest = await client.put(call, params=at, content=body % offset(10**16 - 2).encode(), headers=headers)
    assert highest.json()["offset"] == offset(10**16 - 2)


@pytest.mark.parametrize("count", [MANY, MANY + 1, RECORDS_MAX, RECORDS_MAX + 1])
def test_a_batch_of_many_records_is_read_one_by_one(count: int) -> None:
    owned = b'{"submissionId":"sub","attemptId":"att"}'
    text = b"[ " + b" ,\n".join([b"{}"] * (count - 1)) + b", %b ]" % owned
    if count > RECORDS_MAX:
        with pytest.raises(InvalidInput, match="at most 100000"):
            _batch(Records(text))
        return
    assert [owner.place for owner in _batch(Records(text)).owners] == [count - 1]
    for strange in (b"3", b"[{}]", b'"{}"'):
        with pytest.raises(InvalidInput) as refused:
            _batch(Records(text.replace(owned, strange)))
        assert refused.value.facts["errors"][0]["pointer"] == f"/records/{count - 1}"
    hidden = b'{"a":"\\ud800","submissionId":"sub","attemptId":"att"}'
    assert len(_batch(Records(text.replace(owned, hidden))).owners) == 1


@settings(
    max_examples=40, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=12),
    limit=st.integers(1, 14),
    most=st.integers(10, 1500),
    start=st.integers(-1, 11),
)
async def test_pages_of_any_size_give_every_batch_once_and_are_as_full_as_they_may_be(
    service: Service, client: httpx.AsyncClient, sizes: list[int], limit: int, most: int, start: int
) -> None:
    stream = await created(client, uuid.uuid4().hex)
    texts = [b'[{"t":"%b"}]' % (b"x" * size) for size in sizes]
    for text in texts:
        assert (await stream.append(text)).status_code == 200
    reader, tenant_id = service.ground.database, client.headers["x-test-tenant"]
    start = min(start, len(sizes) - 1)

    def expected(order: list[int]) -> list[list[int]]:
        """The pages: greedy by number and by size, at least one batch on each."""
        pages: list[list[int]] = []
        for seq in order:
            full = pages and (len(pages[-1]) == limit or sum(len(texts[n]) for n in (*pages[-1], seq)) > most)
            if not pages or full:
                pages.append([])
            pages[-1].append(seq)
        return pages or [[]]

    async def walked(read: Callable[[int], Awaitable[Batches]], place: int) -> list[list[int]]:
        pages = []
        while True:
            page = await read(place)
            assert [records for _, records in page.found] == [texts[seq] for seq, _ in page.found]
            pages.append([seq for seq, _ in page.found])
            place = page.next_seq
            if page.up_to_date:
                return pages

    def forward(after: int) -> Awaitable[Batches]:
        return reads.forward(reader, tenant_id, stream.path, after, limit, page_bytes_max=most)

    def backward(before: int) -> Awaitable[Batches]:
        return reads.backward(reader, tenant_id, stream.path, offset_of(before), limit, page_bytes_max=most)

    assert await walked(forward, start) == expected(list(range(start + 1, len(sizes))))
    assert await walked(backward, start) == expected(list(range(start))[::-1])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["", "sub", "other", None, 5]), min_size=1, max_size=6), st.sampled_from(["att", "x"]))
def test_what_records_name_is_what_json_says(names: list[str | int | None], attempt: str) -> None:
    records = [{"n": n} if name == "" else {"submissionId": name, "attemptId": attempt} for n, name in enumerate(names)]
    batch = _batch(Records(json.dumps(records).encode()))
    assert [owner.place for owner in batch.owners] == [n for n, name in enumerate(names) if name != ""]
    joined, strange = batch.named("sub", "att")
    owned = [name for name in names if name != ""]
    assert (strange is None) == all(isinstance(name, str) and attempt == "att" for name in owned)
    if strange is None:
        assert joined == sorted({str(name) for name in owned} - {"sub"})
