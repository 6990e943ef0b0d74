"""A receiver in Python tells what the service sent from what somebody else did, as the public library does."""

from __future__ import annotations

import base64
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from app.client import InvalidSignatureError, verify
from app.webhooks.signing import new_secret, signatures
from tests.webhooks.judges import ACCEPTED, Signed, by_python

SECRET = new_secret()


def signed(
    body: bytes = b'{"type":"x"}', *, at: int | None = None, secret: str = SECRET, name: str = "dlv_1"
) -> Signed:
    """A delivery, signed as the service does."""
    seconds = int(time.time()) if at is None else at
    value = signatures([secret], name, seconds, body)
    return Signed(secret, {"webhook-id": name, "webhook-timestamp": str(seconds), "webhook-signature": value}, body)


def verdict(one: Signed) -> str | None:
    """The id, or None where it is refused."""
    try:
        return verify(one.secret, one.headers, one.body)
    except InvalidSignatureError:
        return None


@given(st.binary(min_size=24, max_size=64), st.text(), st.from_regex(r"[a-z0-9_]{1,40}", fullmatch=True))
def test_what_the_public_library_signs_is_accepted(key: bytes, text: str, name: str) -> None:
    secret, at = "whsec_" + base64.b64encode(key).decode(), datetime.now(UTC)
    body = text.encode(errors="replace")
    headers = {
        "Webhook-Id": name,
        "WEBHOOK-TIMESTAMP": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(name, at, body.decode()),
    }
    assert verify(secret, headers, body) == name
    assert verify([new_secret(), secret], headers, body) == name


def tampered() -> list[Signed]:
    """Deliveries that somebody else made, or changed on their way."""
    fine = signed()
    value = fine.headers["webhook-signature"]
    without = {name: text for name, text in fine.headers.items() if name != "webhook-signature"}
    return [
        replace(fine, body=fine.body + b" "),
        replace(fine, secret=new_secret()),
        replace(fine, headers=without),
        fine.but(webhook_id="dlv_2"),
        fine.but(webhook_timestamp=str(int(time.time()) + 1)),
        fine.but(webhook_timestamp="now"),
        fine.but(webhook_timestamp="²"),
        fine.but(webhook_signature=value.replace("v1,", "v1a,")),
        fine.but(webhook_signature=""),
        fine.but(webhook_signature="v1,é"),
        signed(at=int(time.time()) - 400),
        signed(at=int(time.time()) + 400),
    ]


def test_both_judges_agree_on_what_is_fine_and_what_is_not() -> None:
    twice = signed().but(webhook_signature=f"v1,AAAA {signed().headers['webhook-signature']} v2,x")
    for one in (signed(), signed("ü\n".encode()), twice):
        assert (verdict(one), by_python([one])[0][0]) == ("dlv_1", ACCEPTED)
    refused = tampered()
    assert [verdict(one) for one in refused] == [None] * len(refused)


@pytest.mark.parametrize("secrets", ["", "whsec_", "whsec_*", ["whsec_AAAA", "x y"]])
def test_a_secret_that_is_none_is_told_without_being_shown(secrets: str | list[str]) -> None:
    one = signed()
    with pytest.raises(ValueError, match="a signing secret is whsec_ and bytes in base64") as told:
        verify(secrets, one.headers, one.body)
    assert not isinstance(told.value, InvalidSignatureError)


def test_the_tolerance_is_the_receivers_to_say() -> None:
    old = signed(at=int(time.time()) - 4000)
    assert verify(SECRET, old.headers, old.body, tolerance_seconds=5000) == "dlv_1"
    with pytest.raises(InvalidSignatureError, match="more than 300 s from now"):
        verify(SECRET, old.headers, old.body)
