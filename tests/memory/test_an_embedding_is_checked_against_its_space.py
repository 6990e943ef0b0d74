"""Embeddings as values: read strictly, rounded to single precision, refused where they could not be compared."""

from __future__ import annotations

import struct

import pytest

from app.errors import InvalidInput
from app.memory.embedding import Embedding, vector_of


def test_the_text_becomes_numbers_of_single_precision() -> None:
    vector = vector_of(Embedding(b"[0.1, -2e0,3]"), 3, "cosine")
    assert vector == struct.pack(">3f", 0.1, -2, 3)
    assert vector_of([0.1, -2, 3], 3, "cosine") == vector


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        (b"[1,null]", "/embedding/1"),
        (b'["1",2]', "/embedding/0"),
        (b"[true,2]", "/embedding/0"),
        (b"[1,[2]]", "/embedding/1"),
        (b"[1,1e400]", "/embedding/1"),
        (b"[1,1e39]", "/embedding/1"),
        (b'{"a":1}', "/embedding"),
        (b'"AAAA"', "/embedding"),
        (b"1", "/embedding"),
        (b"[]", "/embedding"),
        (b"[0,0.0]", "/embedding"),
        (b"[1e-60,-0.0]", "/embedding"),
        (b"[1e-20,1e-20]", "/embedding"),
        (b"[1e20,1e20]", "/embedding"),
    ],
)
def test_b25_what_is_no_embedding_is_refused_by_its_place(text: bytes, pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        vector_of(Embedding(text), 2, "cosine")
    assert refused.value.facts["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("given", [0, 1, 3, 5000])
def test_b25_a_wrong_size_says_what_was_expected_and_given(given: int) -> None:
    text = Embedding(b"[" + b",".join([b"1"] * given) + b"]")
    with pytest.raises(InvalidInput) as refused:
        vector_of(text, 2, "l2")
    assert (refused.value.facts["expected"], refused.value.facts["given"]) == (2, given)


def test_zero_has_a_place_by_distance_and_by_product() -> None:
    for metric in ("l2", "inner_product"):
        assert vector_of(Embedding(b"[0,0]"), 2, metric) == bytes(8)


def test_what_half_precision_cannot_hold_is_refused_where_the_index_has_it() -> None:
    numbers = [1.0] * 2000 + [65505.0]
    with pytest.raises(InvalidInput) as refused:
        vector_of(numbers, 2001, "l2")
    assert refused.value.facts["errors"][0]["pointer"] == "/embedding/2000"
    assert len(vector_of(numbers[1:], 2000, "l2")) == 8000
