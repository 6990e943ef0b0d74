"""JSON as text, in every shape that a client may send it: spacing, escapes, numbers and nesting of its own choice."""

from __future__ import annotations

import json

from hypothesis import strategies as st

SPACE = st.text(" \t\n\r", max_size=2)
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,8})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
_UNITS = st.one_of(
    st.characters(exclude_characters='"\\', min_codepoint=0x20, exclude_categories=["Cs"]),
    st.sampled_from(
        [r"\"", r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t", r"\u0000", r"\ud83d", r"\udE00", r"\u00e9"]
    ),
)
STRINGS = st.lists(_UNITS, max_size=6).map(lambda units: '"' + "".join(units) + '"')
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4).map(json.dumps)


@st.composite
def _list(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    inner = ",".join(draw(SPACE) + item + draw(SPACE) for item in draw(st.lists(items, max_size=3)))
    return f"[{inner or draw(SPACE)}]"


@st.composite
def _object(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    members = [
        f"{draw(SPACE)}{draw(KEYS)}{draw(SPACE)}:{draw(SPACE)}{item}{draw(SPACE)}"
        for item in draw(st.lists(items, max_size=3))
    ]
    return "{" + (",".join(members) or draw(SPACE)) + "}"


VALUES = st.recursive(
    st.one_of(st.sampled_from(["true", "false", "-0", "1.0", "1e400", "{}", "[]"]), NUMBERS, STRINGS),
    lambda inner: st.one_of(_list(inner), _object(inner)),
    max_leaves=8,
)
