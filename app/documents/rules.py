"""The rules of a collection, as a write goes by them: remembered, and held by the statement that writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import msgspec

from app.bus.hints import Key
from app.documents.secrecy import SecretPaths, secret_paths
from app.http.verbatim import JsonValue, Verbatim

KIND = "documents"
# Larger bodies are kept and not looked into: an index entry for each of their members would cost more than they do.
INDEXED_BYTES_MAX = 4 * 1024 * 1024


class Rules(msgspec.Struct, frozen=True):
    """The rules at a revision; a collection is told from one of the same name before it by when it was made."""

    revision: int
    created_at: datetime
    secret_paths: tuple[str, ...]

    @property
    def paths(self) -> SecretPaths:
        """The secret paths, ready to cut."""
        return secret_paths(self.secret_paths)


_decode = msgspec.json.Decoder(Rules).decode


@lru_cache(maxsize=1024)
def rules_of(text: bytes) -> Rules:
    """The rules, from their JSON."""
    return _decode(text)


def key_of(tenant_id: str) -> Key:
    """What is told when the rules of a tenant's collections have changed."""
    return Key(KIND, tenant_id, "")


@dataclass(frozen=True)
class Prepared:
    """A body as it is stored: cut, and with what queries look in, unless `jsonb` cannot hold it."""

    body: bytes
    indexed: bytes | None


def prepared(tenant_id: str, collection: str, rules: Rules | None, body: bytes) -> Prepared:
    """The body cut by the rules, with what queries look in."""
    kept = body if rules is None else rules.paths.cut(body)
    return Prepared(kept, indexed(tenant_id, collection, kept))


def indexed(tenant_id: str, collection: str, body: bytes) -> bytes | None:
    """What queries look in for this body; None where `jsonb` cannot hold it, or it is too large."""
    if len(body) > INDEXED_BYTES_MAX:
        return None
    try:
        JsonValue.checked(Verbatim(body))
    except (ValueError, RecursionError):
        return None
    return within(tenant_id, collection, b',"body":%b' % body)


def within(tenant_id: str, collection: str, more: bytes = b"") -> bytes:
    """The JSON that leads the index to a collection, with more members, each with its comma."""
    names = json.dumps([tenant_id, collection], separators=(",", ":")).encode()
    return b'{"in":%b%b}' % (names, more)
