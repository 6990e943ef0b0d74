"""Merging and cutting change what they are about; every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.documents.secrecy import SecretPaths
from app.documents.splicing import NotAnObject, Patch

NAMES = st.sampled_from(["a", "b", "c", "é", 'q"', "\\", "", "0", "1"])
NUMBERS = st.sampled_from(["0", "1.0", "-0", "1e400", "12345678901234567890123", "1E-7"])
SPACE = st.sampled_from(["", " ", "\n  ", "\t"])
TEXTS = st.sampled_from(['"x"', '"[{,]}"', r'"\u0000"', r'"\ud800"', r'"\\\""', "true", "false", "null"])


@st.composite
def json_text(draw: st.DrawFn, depth: int = 4, *, is_object: bool = False, is_null: bool = True) -> str:
    """A JSON text with spaces anywhere, names that may come twice, and names written in two ways."""
    kind = "object" if is_object else draw(st.sampled_from(["number", "text", "object", "array"][: 4 if depth else 2]))
    if kind == "number":
        return draw(NUMBERS)
    if kind == "text":
        return draw(TEXTS)
    items = []
    for _ in range(draw(st.integers(0, 4))):
        value = f"{draw(SPACE)}{draw(json_text(depth - 1))}{draw(SPACE)}"
        if kind == "object":
            name = json.dumps(draw(NAMES), ensure_ascii=draw(st.booleans()))
            value = f"{draw(SPACE)}{name}{draw(SPACE)}:{value}"
        items.append(value)
    inner = ",".join(items) or draw(SPACE)
    return f"{{{inner}}}" if kind == "object" else f"[{inner}]"


def rfc7396(target: Any, patch: Any) -> Any:
    """The function of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = rfc7396(result.get(name), value)
    return result


def loads(text: str | bytes) -> Any:
    """The values, with numbers as the text that they are."""
    return json.loads(text, parse_int=str, parse_float=str)


@given(json_text(), json_text())
@settings(deadline=None)
def test_a_deep_merge_is_that_of_rfc_7396(stored: str, patch: str) -> None:
    made = Patch(patch.encode(), deep=True)
    assert loads(made.into(stored.encode())) == rfc7396(loads(stored), loads(patch))
    assert loads(made.alone()) == rfc7396({}, loads(patch))


@given(json_text(is_object=True), json_text(is_object=True))
@settings(deadline=None)
def test_a_shallow_merge_is_an_update_of_the_top(stored: str, patch: str) -> None:
    merged = Patch(patch.encode(), deep=False).into(stored.encode())
    assert loads(merged) == loads(stored) | loads(patch)


@st.composite
def once(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Members of one object, each named once, with the text of each from its name to the end of its value."""
    names = draw(st.lists(NAMES, unique=True, max_size=6))
    return [(name, f"{json.dumps(name)}{draw(SPACE)}:{draw(SPACE)}{draw(json_text(2))}") for name in names]


@given(once(), once(), st.booleans(), SPACE, SPACE)
@settings(deadline=None)
def test_what_a_merge_does_not_touch_stays_byte_for_byte_and_in_its_order(
    stored: list[tuple[str, str]], patch: list[tuple[str, str]], deep: bool, before: str, after: str
) -> None:
    text = "{" + ",".join(f"{before}{member}{after}" for _, member in stored) + "}"
    merged = Patch(("{" + ",".join(member for _, member in patch) + "}").encode(), deep=deep).into(text.encode())
    patched = {name for name, _ in patch}
    place = 0
    for name, member in stored:
        if name not in patched:
            place = merged.index(member.encode(), place) + len(member.encode())
    if not patched:
        assert merged == text.encode()


@pytest.mark.parametrize(
    ("stored", "patch", "deep", "wanted"),
    [
        ('{"a": 1.0, "b": 2}', '{"c":3}', False, '{"a": 1.0, "b": 2, "c":3}'),
        ('{\n  "a": 1\n}', '{"b": 2}', False, '{\n  "a": 1,\n  "b": 2\n}'),
        ('{"a":1,"b":2,"c":3}', '{"b":null}', True, '{"a":1,"c":3}'),
        ('{"a":1,"b":2,"c":3}', '{"b":null}', False, '{"a":1,"b":null,"c":3}'),
        ('{"a":1 , "b":2 }', '{"b":null}', True, '{"a":1  }'),
        ('{"a":1, "b":2}', '{"a":null}', True, '{ "b":2}'),
        ('{"a":1}', '{"a":null}', True, "{}"),
        ('{"a":1}', '{"a":null,"b":{"c":null,"d":[null]}}', True, '{"b":{"d":[null]}}'),
        ('{"a":{"x":1e400,"y": 2}}', '{"a":{"y":"2"}}', True, '{"a":{"x":1e400,"y": "2"}}'),
        ('{"a":{"x":1}}', '{"a":{"y":2}}', False, '{"a":{"y":2}}'),
        ("[1]", '{"a":{"b":null}}', True, '{"a":{}}'),
        ('{"a":1}', "[1, 2]", True, "[1, 2]"),
        ("{ }", "{}", True, "{ }"),
        ("{}", '{"a":1,"b":2}', True, '{"a":1,"b":2}'),
        ('{"a":1,"a":2}', '{"a":null}', True, "{}"),
        (r'{"\u0061":1}', '{"a":2}', False, r'{"\u0061":2}'),
    ],
)
def test_merges_by_example(stored: str, patch: str, deep: bool, wanted: str) -> None:
    assert Patch(patch.encode(), deep=deep).into(stored.encode()).decode() == wanted


def test_a_shallow_merge_needs_two_objects() -> None:
    with pytest.raises(NotAnObject):
        Patch(b"[]", deep=False)
    with pytest.raises(NotAnObject):
        Patch(b"{}", deep=False).into(b"[]")


def test_deep_text_is_walked_once() -> None:
    levels = 500
    stored = b'{"a":' * levels + b'"' + b"x" * 10_000_000 + b'"' + b"}" * levels
    patch = b'{"a":' * levels + b"1" + b"}" * levels
    assert Patch(patch, deep=True).into(stored) == b'{"a":' * levels + b"1" + b"}" * levels


CANARY = "canary-7f3a"


def cut_values(value: Any, path: list[str]) -> Any:
    """The reference: what lies at the path goes; an element becomes null."""
    if isinstance(value, dict):
        return {
            name: cut_values(item, path[1:]) if path[0] in (name, "*") else item
            for name, item in value.items()
            if not (len(path) == 1 and path[0] in (name, "*"))
        }
    if isinstance(value, list):
        return [
            (None if len(path) == 1 else cut_values(item, path[1:])) if path[0] in (str(place), "*") else item
            for place, item in enumerate(value)
        ]
    return value


@given(json_text(), st.lists(NAMES | st.just("*"), min_size=1, max_size=3))
@settings(deadline=None)
def test_cutting_takes_what_lies_there_and_nothing_else(text: str, path: list[str]) -> None:
    pointer = "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)
    once = SecretPaths([pointer]).cut(text.encode())
    assert loads(once) == cut_values(loads(text), path)
    assert SecretPaths([pointer]).cut(once) == once
    if once == text.encode():
        assert SecretPaths([pointer]).cut(once) is once


@given(once(), once(), json_text(2), SPACE)
@settings(deadline=None)
def test_a_canary_at_a_secret_path_is_gone_and_the_rest_is_exact(
    before: list[tuple[str, str]], after: list[tuple[str, str]], value: str, space: str
) -> None:
    def members(listed: list[tuple[str, str]]) -> list[str]:
        return [space + member for _, member in listed]

    secret = f'{space}"secret":{{"of":"{CANARY}","more":{value}}}'
    text = "{" + ",".join([*members(before), secret, *members(after)]) + "}"
    wanted = "{" + ",".join([*members(before), *members(after)]) + "}"
    assert SecretPaths(["/secret"]).cut(text.encode()) == wanted.encode()
    nested = f'[1.0, {{"x" :{text}}}]'
    assert SecretPaths(["/*/x/secret"]).cut(nested.encode()) == f'[1.0, {{"x" :{wanted}}}]'.encode()
