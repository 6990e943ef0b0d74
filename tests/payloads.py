"""Payloads that must come back byte for byte, and small ways to send and find exact text."""

from __future__ import annotations

from typing import Any

import httpx

PAYLOADS: dict[str, bytes] = {
    "nul": b'"a\\u0000b"',
    "lone_surrogates": b'["\\ud83d", "\\ude00x", {"\\udfff":"\\ud800"}]',
    "big_exponent": b"[1e400,-1E-400]",
    "beyond_int64": b"9223372036854775809",
    "float_one": b'{"x":1.0,"y":1.10e1}',
    "key_order": b'{"b":1, "a":2,"b":3}',
    "spacing": b'{ "a" :\t[ 1 ,\n2 ] }',
    "deep": b"[" * 512 + b"]" * 512,
    "not_ascii": '{"é€😀":"\\u00e9"}'.encode(),
    "not_ascii_raw": '"日本語 \U0001f600 \u007f\u2028"'.encode(),
    "empty": b'""',
    "empty_containers": b'[{},[],{ },[ ],""]',
    "false": b"false",
    "null": b"null",
    "bare_float_one": b"1.0",
    "minus_zero": b"-0",
    "minus_zeros": b"[-0,-0.0,-0e0,0E+0]",
    "long_digits": b"0." + b"1234567890" * 600,
    "long_integer": b"[" + b"9" * 6000 + b"]",
    "escapes": b'"\\/\\u002F\\b\\f\\n\\r\\t\\\\\\""',
    "looks_like_ours": b'{"items":[],"next_cursor":null,"input":1}',
}


async def send(client: httpx.AsyncClient, method: str, path: str, content: bytes, **headers: str) -> httpx.Response:
    """A request with exactly this body."""
    return await client.request(method, path, content=content, headers={"content-type": "application/json", **headers})


def codes(answers: list[httpx.Response]) -> list[int]:
    """The status codes, sorted."""
    return sorted(answer.status_code for answer in answers)


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal."""
    body: dict[str, Any] = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, body["code"]
