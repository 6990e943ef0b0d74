"""Signatures as Standard Webhooks defines them (github.com/standard-webhooks/standard-webhooks, version 1.0.0)."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Sequence

PREFIX = "whsec_"
# The specification asks for 24 to 64 random bytes.
SECRET_BYTES = 32
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64


def new_secret() -> str:
    """A new random signing secret, in the written form that the public libraries take."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """The bytes that sign. Raises ValueError, which does not tell the secret, for what is none."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(PREFIX) or not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise ValueError(f"a signing secret is {PREFIX} and {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64")
    return key


def signatures(secrets: Sequence[str], delivery_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one `v1` signature by each secret, separated by spaces.

    `timestamp` is in seconds since 1970. Raises ValueError for what is no secret.
    """
    head = f"{delivery_id}.{timestamp}.".encode()
    return " ".join(_signature(key_of(secret), head, body) for secret in secrets)


def _signature(key: bytes, head: bytes, body: bytes) -> str:
    signing = hmac.new(key, head, "sha256")
    signing.update(body)
    return "v1," + base64.b64encode(signing.digest()).decode()
