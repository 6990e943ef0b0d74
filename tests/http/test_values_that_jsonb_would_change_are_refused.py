"""Values that are filtered on: what `jsonb` refuses, or would keep as something else, is told to the caller."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.http.fields import Body, JsonObject, JsonValue
from app.http.verbatim import Verbatim


class Holder(Body):
    """A body with both kinds of `jsonb` members."""

    metadata: JsonObject | None = None
    value: JsonValue | None = None


@pytest.mark.parametrize(
    "text",
    [
        rb'{"a":"\u0000"}',
        rb'{"\u0000":1}',
        rb'{"a":[["x\ud800"]]}',
        rb'{"\udfff":1}',
        b'{"a":1e9999}',
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":1,"a":2}',
        rb'{"a":{"x":1,"b":2,"\u0078":1}}',
        b'{"a":[{"b":1},{"b":1,"b":1}]}',
    ],
)
def test_b01_b06_what_jsonb_cannot_hold_as_it_is_is_refused(text: bytes) -> None:
    for name in ("metadata", "value"):
        with pytest.raises(ValidationError):
            Holder(**{name: Verbatim(text)})


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        rb'{"a":"\ud83d\ude00","b":"\\u0000","c":"a\":1,\"a"}',
        b'{"a":1e99,"b":-0.0,"c":{"a":1},"d":[{"a":1},{"a":1}],"e":"\\u0061","f":9007199254740993}',
        '{"é":"€"}'.encode(),
    ],
)
def test_what_jsonb_can_hold_passes_as_it_is(text: bytes) -> None:
    assert Holder(metadata=Verbatim(text)).metadata == text


def test_a_value_that_is_no_object_is_no_metadata() -> None:
    assert Holder(value=Verbatim(b"[1]")).value == b"[1]"
    with pytest.raises(ValidationError, match="must be a JSON object"):
        Holder(metadata=Verbatim(b"[1]"))
