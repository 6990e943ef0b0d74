"""Cutting a body: declared payloads keep their bytes, whatever the plan; malformed text is one kind of refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, create_model

from app.errors import AppError, InvalidInput, MalformedRequest
from app.http import cutting
from app.http.compact import cut_compact
from app.http.cutting import nests_deeper, read_body, read_payload
from app.http.plan import plan_for
from app.http.verbatim import JsonObject, Verbatim
from tests.http.json_texts import SPACE, VALUES

NAMES = ("a", "payload", "é€", 'tab\tquote"')
Cut = tuple[Any, str, Any]


@pytest.fixture(autouse=True, scope="module", params=[cutting.LARGE_BYTES, 0], ids=["as small", "as large"])
def _each_way_to_cut(request: pytest.FixtureRequest) -> Iterator[None]:
    """Large bodies are cut without building what is skipped; everything here holds for both ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "LARGE_BYTES", request.param)
        yield


class Lax(BaseModel):
    """Models of the tests: nothing is validated, only cut."""

    model_config = ConfigDict(arbitrary_types_allowed=True)


@st.composite
def cuts(draw: st.DrawFn, depth: int = 2) -> Cut:
    """A model, the text of an object that fits it, and what cutting must give."""
    fields: dict[str, Any] = {}
    members: list[str] = []
    expected: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        kinds = ["raw", "null", "absent"] + (["object", "list"] if depth else [])
        kind = draw(st.sampled_from(kinds))
        if kind in ("raw", "null"):
            text = draw(VALUES) if kind == "raw" else "null"
            fields[name], expected[name] = (Verbatim, ...), text.encode()
        elif kind == "absent":
            fields[name], expected[name], text = (Verbatim | None, None), None, "null"
        elif kind == "object":
            model, text, expected[name] = draw(cuts(depth - 1))
            fields[name] = (model, ...)
        else:
            model, one, found = draw(cuts(depth - 1))
            count = draw(st.integers(0, 2))
            text = "[" + f"{draw(SPACE)},{draw(SPACE)}".join([one] * count) + "]"
            fields[name], expected[name] = (list[model], ...), [found] * count  # type: ignore[valid-type]
        key = json.dumps(name, ensure_ascii=draw(st.booleans()))
        members.append(f"{draw(SPACE)}{key}{draw(SPACE)}:{draw(SPACE)}{text}{draw(SPACE)}")
    fields = {
        f"f{place}": (kind, Field(default, alias=name)) for place, (name, (kind, default)) in enumerate(fields.items())
    }
    return create_model("Cut", __base__=Lax, **fields), "{" + (",".join(members) or draw(SPACE)) + "}", expected


@settings(max_examples=150, deadline=None)
@given(cuts(), SPACE, SPACE)
def test_any_object_cut_by_any_plan_gives_the_original_text_of_each_payload(cut: Cut, before: str, after: str) -> None:
    model, text, expected = cut
    assert read_body((before + text + after).encode(), model) == expected


@settings(max_examples=150, deadline=None)
@given(VALUES, SPACE, SPACE)
def test_a_whole_body_as_payload_is_the_value_without_the_space_around_it(text: str, before: str, after: str) -> None:
    assert read_payload((before + text + after).encode()) == text.encode()


class Inner(Lax):
    """An object of the envelope below the body."""

    raw: Verbatim


class Sample(Lax):
    """A body with every kind of member."""

    raw: Verbatim
    metadata: JsonObject
    inner: list[Inner]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A body with one piece cut out, doubled, or replaced by any bytes."""
    text = f'{{"raw": {draw(VALUES)}, "inner": [{{"raw":{draw(VALUES)}}}], "name": {draw(VALUES)}}}'.encode()
    start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    new = draw(
        st.sampled_from([b"", text[start:end] * 2, b",", b'"', b"NaN", b"-Infinity", b"\xff", b"\x00", b"\\u12"])
    )
    return text[:start] + new + text[end:]


@settings(max_examples=400, deadline=None)
@given(st.one_of(damaged(), st.binary(max_size=40)))
def test_text_that_is_not_json_is_malformed_and_nothing_else(body: bytes) -> None:
    try:
        json.loads(body.decode(), parse_constant=_refuse)
    except ValueError:
        with pytest.raises(MalformedRequest):
            read_body(body, Sample)
        with pytest.raises(MalformedRequest):
            read_payload(body)
    else:
        # It is JSON: a body is an object that names each member once; anything else is told, and told as that.
        refusal = _refusal(body)
        assert refusal is None or "twice" in refusal.detail or refusal.facts["errors"][0]["pointer"] == ""


def _refusal(body: bytes) -> AppError | None:
    try:
        read_body(body, Sample)
    except (MalformedRequest, InvalidInput) as refusal:
        return refusal
    return None


def _refuse(name: str) -> None:
    raise ValueError(name)


@pytest.mark.parametrize("depth", [1, 511, 512, 513, 1000, 20_000, 200_000])
def test_b06_nesting_is_measured_within_each_payload_at_every_depth(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    for body in (b'{"raw":' + deep + b"}", b'{"inner":[{"raw":' + deep + b"}]}"):
        if depth <= 512:
            read_body(body, Sample)
        else:
            with pytest.raises((MalformedRequest, InvalidInput)):
                read_body(body, Sample)
    with pytest.raises((MalformedRequest, InvalidInput)) if depth > 512 else nullcontext():
        read_payload(deep)
    assert nests_deeper(deep, depth - 1)
    assert not nests_deeper(deep, depth)


def test_brackets_inside_strings_do_not_nest() -> None:
    text = b'"' + b'[{\\"' * 2000 + b'"'
    assert read_body(b'{"raw":' + text + b"}", Sample) == {"raw": text}


@pytest.mark.parametrize(
    "body", [b'{"raw":1,"raw":2}', b'{"raw":1,"\\u0072aw":2}', b'{"inner":[{"raw":1,"raw":1}]}', b'{"x":1,"x":1}']
)
def test_b06_a_member_of_the_envelope_named_twice_is_refused_but_inside_a_payload_it_stays(body: bytes) -> None:
    with pytest.raises(MalformedRequest, match="twice"):
        read_body(body, Sample)
    inside = b'{"raw":%b}' % body
    assert read_body(inside, Sample) == {"raw": body}


class Flat(BaseModel):
    """A text, an integer, a payload, and what is none of them: the kinds that a compact body is told by."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    text: str | None = None
    number: int | None = None
    payload: Verbatim | None = None
    other: list[str] | None = None


class Flats(BaseModel):
    """Many of them."""

    items: list[Flat]


MEMBERS = st.sampled_from(
    [
        '"text":"a"', '"text":"\\u0061"', '"text":"a\\nb"', '"text":"é"', '"text":null', '"text":"\\ud800"', '"text":1',
        '"number":1', '"number":1.0', '"number":-0', '"number":9007199254740993', '"number":"1"', '"number":1e2',
        '"payload":1.0', '"payload":{"a":1, "a":2}', '"payload":null', '"payload":"\\u0000"', '"payload":[1e400]',
        '"other":["a","b"]', '"other":[1.50]', '"unknown":1', '"te\\u0078t":"b"',
    ]
)  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.lists(st.lists(MEMBERS, max_size=5), max_size=3), st.sampled_from([(",", ""), (", ", " ")]), st.booleans())
def test_a_body_that_is_not_walked_reads_as_if_it_were(
    objects: list[list[str]], spacing: tuple[str, str], is_list: bool
) -> None:
    between, after_colon = spacing
    texts = ["{" + between.join(member.replace(":", ":" + after_colon, 1) for member in one) + "}" for one in objects]
    text = f'{{"items":{after_colon}[{between.join(texts)}]}}' if is_list or not texts else texts[0]
    body, plan = text.encode(), plan_for(Flat, Flats)
    at_once = cut_compact(body, plan)
    if at_once is None:
        return
    walked = cutting._Cutter(body, 0).document(plan)
    assert at_once == walked
    assert list(map(repr, _leaves(at_once))) == list(map(repr, _leaves(walked)))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name in sorted(value):
            yield from _leaves(value[name])
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


@pytest.mark.parametrize("spacing", [(",", ":"), (", ", ": ")], ids=["compact", "as Python writes it"])
def test_what_programs_send_is_not_walked(spacing: tuple[str, str]) -> None:
    item = {"text": "a\nb", "number": 3, "payload": {"x": [1.5, None]}, "other": ["a"]}
    body = json.dumps({"items": [item, item]}, separators=spacing).encode()
    found = cut_compact(body, plan_for(Flat, Flats))
    payload = json.dumps(item["payload"], separators=spacing).encode()
    assert found == {"items": [{**item, "payload": payload}] * 2}
