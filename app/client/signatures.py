"""Signatures of webhooks, as who receives them checks them: those of Standard Webhooks, version 1.0.0."""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Mapping, Sequence

TOLERANCE_SECONDS = 300
_PREFIX = "whsec_"
_TIMESTAMP_DIGITS_MAX = 12


class InvalidSignatureError(ValueError):
    """What came is not what the holder of the secret has sent just now; the text says why, and no secret."""


def verify(
    secrets: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> str:
    """Check a delivery and give its id, under which each attempt and replay of it comes again: keep it, and act once.

    `secrets` is a webhook's signing secret (`whsec_…`), or several while they are being exchanged. `headers` are those
    of the request, in any case; `body` is its bytes as they came, before anything parses them. A timestamp that is
    further away than the tolerance is refused, so that nobody can send what they overheard again later.
    Raises `InvalidSignatureError`; `ValueError` for a secret that is none.
    """
    keys = [_key_of(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    known = {name.lower(): value for name, value in headers.items()}
    try:
        delivery_id, at, given = (known[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError as error:
        raise InvalidSignatureError(f"the header {error.args[0]} is missing") from None
    if not (at.isascii() and at.isdecimal() and len(at) <= _TIMESTAMP_DIGITS_MAX):
        raise InvalidSignatureError("webhook-timestamp is no number of seconds")
    if abs(time.time() - int(at)) > tolerance_seconds:
        raise InvalidSignatureError(f"webhook-timestamp is more than {tolerance_seconds:g} s from now")
    expected = [_signature(key, f"{delivery_id}.{at}.".encode(), body) for key in keys]
    versions = (part.partition(",") for part in given.split(" "))
    found = [signature.encode() for version, _, signature in versions if version == "v1"]
    if not any(hmac.compare_digest(one, other) for one in expected for other in found):
        raise InvalidSignatureError("webhook-signature is of another secret or another body")
    return delivery_id


def _key_of(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise ValueError(f"a signing secret is {_PREFIX} and bytes in base64")
    return key


def _signature(key: bytes, head: bytes, body: bytes) -> bytes:
    signing = hmac.new(key, head, "sha256")
    signing.update(body)
    return base64.b64encode(signing.digest())
