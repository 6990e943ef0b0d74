"""Reads what an embedding endpoint answered: for each text its numbers, or what is wrong with them."""

from __future__ import annotations

import math
import re
import struct
from typing import Any

from pydantic_core import from_json

from app.embeddings.embedder import EmbeddingFault

# An embedding in single precision, little-endian, as it is kept; or why there is none.
Found = bytes | EmbeddingFault

EXCERPT_CHARACTERS = 200
_UNREADABLE = re.compile(r"[^\x20-\x7e\xa0-\u2027\u2030-\uffff]+")


class Unreadable(Exception):
    """The answer as a whole is no list of embeddings."""


def read_answer(body: bytes, count: int, dimensions: int) -> list[Found]:
    """What the answer says of each of so many texts, by the `index` of its entries. Raises `Unreadable`."""
    try:
        entries = from_json(body, allow_inf_nan=True)["data"]
    except (ValueError, LookupError, TypeError):
        raise Unreadable("What it answers is no list of embeddings in JSON.") from None
    if not isinstance(entries, list):
        raise Unreadable("What it answers is no list of embeddings in JSON.")
    found: list[Found | None] = [None] * count
    for entry in entries:
        index = entry.get("index") if isinstance(entry, dict) else None
        if type(index) is not int or not 0 <= index < count:
            continue
        if found[index] is not None:
            found[index] = EmbeddingFault("embedding_malformed", "The embedding service gave two embeddings for it.")
        else:
            found[index] = judged(entry.get("embedding"), dimensions)
    missing = EmbeddingFault("embedding_missing", "The embedding service gave no embedding for it.")
    return [missing if one is None else one for one in found]


def judged(numbers: Any, dimensions: int) -> Found:
    """The numbers in single precision, if they are an embedding of that size."""
    if numbers is None:
        return EmbeddingFault("embedding_missing", "The embedding service gave null for it.")
    if not isinstance(numbers, list) or not set(map(type, numbers)) <= {int, float}:
        return EmbeddingFault("embedding_malformed", "The embedding service gave something else than numbers for it.")
    if len(numbers) != dimensions:
        return EmbeddingFault(
            "embedding_size",
            f"The embedding service gave {len(numbers)} numbers for it, and the space has {dimensions} dimensions.",
            {"expected": dimensions, "given": len(numbers)},
        )
    try:
        packed = struct.pack(f"<{dimensions}f", *numbers)
    except (OverflowError, struct.error):
        packed = b""
    if not packed or not all(map(math.isfinite, numbers)):
        return EmbeddingFault(
            "embedding_not_finite", "The embedding service gave a number for it that is not finite in single precision."
        )
    if not any(numbers_of(packed)):
        return EmbeddingFault("embedding_zero", "The embedding service gave nothing but zeros for it.")
    return packed


def numbers_of(packed: bytes) -> list[float]:
    """The numbers of an embedding as it is kept."""
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


def excerpt(body: bytes, secret: str) -> str:
    """The message of a refusal, shortened, on one line, without the secret; empty where it has none."""
    try:
        told = from_json(body)
        error = told.get("error", told)
        message = error.get("message", "") if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        return ""
    if not isinstance(message, str):
        return ""
    if secret:
        message = message.replace(secret, "…")
    return _UNREADABLE.sub(" ", message).strip()[:EXCERPT_CHARACTERS]
