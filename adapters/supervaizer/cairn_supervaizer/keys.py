"""How types and ids of Supervaizer are named in Cairn: one name for each, and none for two."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

PREFIX: Final = "supervaizer"
ID_BYTES_MAX: Final = 255
_AS_JSON: Final = "json:"
_AS_DIGEST: Final = "sha256:"
# Path segments that mean something beside an id, to the service or to what is between.
_TAKEN: Final = frozenset(
    {
        *(".", "..", "query", "revisions", "latest", "summary", "unsettled", "count", "lookup", "restore"),
        *("claim-next", "renew-leases", "abort-session"),
    }
)


def collection_of(store: str, type: str) -> str:
    """The collection that holds the objects of a type in a store. A type that gives no name is a `ValueError`."""
    name = f"{PREFIX}/{store}/{type}"
    if not type or not _is_id(name):
        raise ValueError(
            f"{type!r} names no collection: it is empty, longer than {ID_BYTES_MAX} bytes, or holds U+0000"
        )
    return name


def prefix_of(store: str) -> str:
    """What the names of all collections of a store begin with. A name that no store can have is a `ValueError`."""
    if not store or "/" in store or not _is_id(store):
        raise ValueError(f"{store!r} names no store: give a name without '/'")
    return f"{PREFIX}/{store}/"


def document_id(object_id: Any) -> str:
    """The document id of an object's id: a string is itself, anything else its JSON, so that 5 is not "5".

    Numbers that Python calls equal (5, 5.0) are one id, as they are in TinyDB. A value that JSON does not know is a
    `TypeError`.
    """
    if isinstance(object_id, bool) or (isinstance(object_id, float) and object_id.is_integer()):
        object_id = int(object_id)
    plain = isinstance(object_id, str) and not object_id.startswith((_AS_JSON, _AS_DIGEST)) and object_id not in _TAKEN
    if plain and _is_id(object_id):
        return str(object_id)
    text = _AS_JSON + json.dumps(object_id, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text if _is_id(text) else _AS_DIGEST + hashlib.sha256(text.encode()).hexdigest()


def _is_id(text: str) -> bool:
    try:
        return "\0" not in text and 0 < len(text.encode()) <= ID_BYTES_MAX
    except UnicodeEncodeError:
        # A lone surrogate, which no text column holds.
        return False
