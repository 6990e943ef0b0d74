"""The receipt of an offboarding: what is gone, signed byte for byte."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from app.signing import ALGORITHM, Signer, holds


class _Signed(msgspec.Struct):
    receipt: msgspec.Raw
    signature: dict[str, str] | None


def tenant_sha256(tenant_id: str) -> str:
    """What a tenant that has left is named by, in hexadecimal."""
    return hashlib.sha256(tenant_id.encode()).hexdigest()


def signed(said: dict[str, Any], signer: Signer | None) -> bytes:
    """The receipt with its signature over the bytes of `receipt`; null without a signer."""
    receipt = json.dumps(said, separators=(",", ":"), sort_keys=True).encode()
    signature = None if signer is None else signer.sign(receipt)
    return b'{"receipt":%s,"signature":%s}' % (receipt, json.dumps(signature).encode())


def read(content: bytes) -> tuple[dict[str, Any], str | None, bool]:
    """What a receipt says, the public key that it names, and whether its signature holds under that.

    Raises `ValueError` for what is no receipt.
    """
    found = msgspec.json.decode(content, type=_Signed)
    said = msgspec.json.decode(found.receipt, type=dict[str, Any])
    signature = found.signature
    if signature is None:
        return said, None, False
    if signature.get("algorithm") != ALGORITHM or not {"public_key", "value"} <= signature.keys():
        raise ValueError("The signature is of another kind.")
    key = signature["public_key"]
    return said, key, holds(key, signature["value"], bytes(found.receipt))
