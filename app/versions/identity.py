"""Names a version by its content and ancestry, as RFC 8785 (JSON Canonicalization Scheme) makes content comparable."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import Any

import rfc8785


class _Uncanonical(Exception):
    """The canonical form would fail, or would not keep every digit."""


def dsl_hash(dsl: bytes) -> str:
    """`jcs:<sha256 of the RFC 8785 form>`, or `raw:<sha256 of the exact bytes>` where that form fails or rounds."""
    try:
        value = json.loads(dsl, object_pairs_hook=_members, parse_float=_double, parse_int=_integer)
        return "jcs:" + hashlib.sha256(rfc8785.dumps(value)).hexdigest()
    except (_Uncanonical, ValueError, RecursionError):
        return "raw:" + hashlib.sha256(dsl).hexdigest()


def derived_id(workflow_id: str, hashed: str, operation: str, parent1_id: str | None, parent2_id: str | None) -> str:
    """SHA-256 (hex) of the canonical form of content and ancestry: re-creating is a replay."""
    named = {
        "workflow_id": workflow_id,
        "dsl_hash": hashed,
        "operation": operation,
        "parent1_id": parent1_id,
        "parent2_id": parent2_id,
    }
    return hashlib.sha256(rfc8785.dumps(named)).hexdigest()


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Uncanonical
    return found


def _double(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")) or Decimal(repr(number)) != Decimal(text):
        raise _Uncanonical
    return number


def _integer(text: str) -> int:
    number = int(text)
    if abs(number) > 2**53 - 1:
        raise _Uncanonical
    return number
