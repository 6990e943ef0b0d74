"""Signatures are those of Standard Webhooks: its libraries for Python and JavaScript judge them, and their vectors."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.webhooks.signing import key_of, new_secret, signatures
from tests.webhooks.judges import ACCEPTED, JUDGES, REFUSED, Signed, by_python

Judge: TypeAlias = Callable[[Sequence[Signed]], list[tuple[str, str]]]

BODIES = {
    "an object": b'{"type":"invocation.ended","timestamp":"2026-11-30T12:00:00Z","data":{"id":"inv_1"}}',
    "letters of many scripts": json.dumps({"text": "Grüße, 你好, שלום, 👩‍👩‍👧, \u2028"}, ensure_ascii=False).encode(),
    "escapes of lone surrogates and NUL": rb'{"text":"\ud800 \u0000 \udfff"}',
    "a carriage return and a tab": b'{\r\n\t"a": 1 }\n',
    "numbers beyond doubles": b'{"n":123456789012345678901234567890.000000000000000000001}',
    "5 MB": b'{"text":"' + b"x" * 5_000_000 + b'"}',
    "two bytes": b"{}",
}


def signed(secrets: Sequence[str], body: bytes, delivery_id: str = "dlv_1", timestamp: int | None = None) -> Signed:
    """A delivery signed by us, as who holds the first of the secrets judges it."""
    at = int(time.time()) if timestamp is None else timestamp
    value = signatures(secrets, delivery_id, at, body)
    headers = {"webhook-id": delivery_id, "webhook-timestamp": str(at), "webhook-signature": value}
    return Signed(secrets[0], headers, body)


def secret_of(size_bytes: int) -> str:
    return "whsec_" + base64.b64encode(bytes(range(100, 100 + size_bytes))).decode()


@pytest.mark.parametrize("judge", JUDGES)
def test_they_accept_every_body_and_would_sign_it_alike(judge: Judge) -> None:
    deliveries = [signed([new_secret()], body) for body in BODIES.values()]
    expected = [(ACCEPTED, delivery.headers["webhook-signature"]) for delivery in deliveries]
    assert judge(deliveries) == expected


@pytest.mark.parametrize("judge", JUDGES)
def test_they_accept_secrets_of_every_permitted_length(judge: Judge) -> None:
    deliveries = [signed([secret_of(size)], b"{}") for size in (24, 25, 26, 32, 63, 64)]
    assert [verdict for verdict, _ in judge(deliveries)] == [ACCEPTED] * len(deliveries)


@pytest.mark.parametrize("judge", JUDGES)
def test_while_two_secrets_sign_each_of_them_is_accepted_and_no_third(judge: Judge) -> None:
    new, old = new_secret(), new_secret()
    delivery = signed([new, old], BODIES["letters of many scripts"])
    told = judge([replace(delivery, secret=secret) for secret in (new, old, new_secret())])
    assert [verdict for verdict, _ in told] == [ACCEPTED, ACCEPTED, REFUSED]


@pytest.mark.parametrize("judge", JUDGES)
def test_they_refuse_what_was_tampered_with(judge: Judge) -> None:
    secret = new_secret()
    delivery = signed([secret], BODIES["an object"])
    at, value = int(delivery.headers["webhook-timestamp"]), delivery.headers["webhook-signature"]
    tampered = [
        replace(delivery, body=delivery.body + b" "),
        replace(delivery, body=delivery.body.replace(b"inv_1", b"inv_2")),
        replace(delivery, secret=new_secret()),
        delivery.but(webhook_id="dlv_2"),
        delivery.but(webhook_timestamp=str(at + 1)),
        delivery.but(webhook_signature=value.replace("v1,", "v2,")),
        delivery.but(webhook_signature="v1," + base64.b64encode(bytes(32)).decode()),
        # Where the parts are joined must not be movable: dlv_1.2 at 3 is not dlv_1 at 2.3.
        delivery.but(webhook_id=f"dlv_1.{at}"),
    ]
    assert [verdict for verdict, _ in judge(tampered)] == [REFUSED] * len(tampered)


@pytest.mark.parametrize("judge", JUDGES)
def test_they_refuse_a_stale_attempt_so_each_attempt_is_signed_anew(judge: Judge) -> None:
    now = int(time.time())
    told = judge([signed([new_secret()], b"{}", timestamp=now + apart) for apart in (-290, 0, 290, -600, 600)])
    assert [verdict == ACCEPTED for verdict, _ in told] == [True, True, True, False, False]


@pytest.mark.parametrize("judge", JUDGES)
def test_the_example_of_the_libraries_is_signed_as_there(judge: Judge) -> None:
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    example = signed([secret], body, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330)
    assert example.headers["webhook-signature"] == expected
    assert [signature for _, signature in judge([example])] == [expected]


@given(st.binary(min_size=24, max_size=64), st.text(max_size=200), st.integers(0, 2**33))
def test_whatever_is_signed_is_signed_as_the_library_for_python_signs_it(key: bytes, text: str, at: int) -> None:
    body = json.dumps(text).encode()
    delivery = signed(["whsec_" + base64.b64encode(key).decode()], body, timestamp=at)
    assert [signature for _, signature in by_python([delivery])] == [delivery.headers["webhook-signature"]]


def test_new_secrets_are_long_and_never_the_same() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert {len(key_of(secret)) for secret in made} == {32}


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "whsec_short",
        secret_of(23),
        secret_of(65),
        secret_of(32).removeprefix("whsec_"),
        "whsec_" + "é" * 40,
    ],
)
def test_what_is_no_secret_does_not_sign_and_is_not_told(secret: str) -> None:
    with pytest.raises(ValueError, match="a signing secret is whsec_ and 24 to 64 bytes in base64") as refused:
        signatures([secret], "dlv_1", 0, b"{}")
    assert len(secret) < 8 or secret not in str(refused.value)
