"""Embeddings as they are sent, and as they are stored: checked against their space once, whoever made them."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from typing import Any

import msgspec
from pydantic_core import CoreSchema, core_schema

from app.db.vectors import packed
from app.errors import InvalidInput, invalid
from app.http.verbatim import Verbatim
from app.memory.partitions import DIMENSIONS_MAX, FULL_PRECISION_DIMENSIONS_MAX

# The squares of such lengths, and their products, are numbers of single precision: distances are never infinite or NaN.
LENGTH_MIN, LENGTH_MAX = 1e-15, 1e15
# Half precision has numbers up to this.
HALF_MAX = 65504
_numbers = msgspec.json.Decoder(list[float]).decode
_PLACE = re.compile(r"\$\[(\d+)\]").search


class Embedding(Verbatim):
    """The text of an array of numbers; it is read once it is known how many there must be."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls, core_schema.is_instance_schema(Verbatim))

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: Any) -> dict[str, Any]:
        return {
            "type": "array",
            "items": {"type": "number"},
            "minItems": 1,
            "maxItems": DIMENSIONS_MAX,
            "description": "As many numbers as the space has dimensions, kept in single precision.",
            "examples": [[0.1, 0.2, 0.7]],
        }


def vector_of(embedding: Embedding | Sequence[float], dimensions: int, metric: str) -> bytes:
    """The vector that is stored for an embedding, its text or its numbers.

    Raises `InvalidInput` about `/embedding` where it is none of such a space: with `expected` and `given` for a wrong
    size, with the place of what is no finite number of single precision.
    """
    numbers = _read(embedding, dimensions) if isinstance(embedding, Embedding) else embedding
    _check_size(len(numbers), dimensions)
    single = array("f", numbers)
    length = math.hypot(*single)
    if not length <= LENGTH_MAX:
        for place, number in enumerate(single):
            if not math.isfinite(number):
                raise invalid(f"/embedding/{place}", "must be a finite number of single precision")
        raise invalid("/embedding", f"must have a length of at most {LENGTH_MAX:g}, or it cannot be compared")
    if metric == "cosine" and length < LENGTH_MIN:
        message = "must not be all zero: it has no direction, so nothing is near it by cosine"
        raise invalid("/embedding", message if not length else f"must have a length of at least {LENGTH_MIN:g}")
    if dimensions > FULL_PRECISION_DIMENSIONS_MAX and length > HALF_MAX:
        for place, number in enumerate(single):
            if abs(number) > HALF_MAX:
                raise invalid(f"/embedding/{place}", f"must be within ±{HALF_MAX}, which is what an index can hold")
    return packed(single)


def _read(text: Embedding, dimensions: int) -> list[float]:
    # Every array of numbers has a comma less than numbers, so a size that is far off is told without reading it.
    commas = text.count(b",")
    if commas >= 2 * dimensions + 16:
        _check_size(commas + 1, dimensions)
    try:
        return _numbers(text)
    except msgspec.ValidationError as error:
        place = _PLACE(str(error))
        if place is None:
            raise invalid("/embedding", "must be an array of numbers") from None
        raise invalid(f"/embedding/{place[1]}", "must be a finite number of single precision") from None


def _check_size(given: int, dimensions: int) -> None:
    if given != dimensions:
        message = f"must have {dimensions} numbers, and has {given}"
        raise InvalidInput(
            f"/embedding: {message}.",
            errors=[{"pointer": "/embedding", "message": message}],
            expected=dimensions,
            given=given,
        )
