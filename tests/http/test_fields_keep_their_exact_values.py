"""The field types: what each accepts, what it makes of it, and where its bound is."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from app.http.fields import INTEGER_MAX, Body, Count, Id, Instant, Money, Query, QueryScore, Score, Text


class Sample(Body):
    """One field of each type."""

    money: Money | None = None
    instant: Instant | None = None
    id: Id | None = None
    count: Count | None = None
    score: Score | None = None
    text: Text | None = None


def read(**value: Any) -> Any:
    return getattr(Sample.model_validate(value), next(iter(value)))


def refused(**value: Any) -> None:
    with pytest.raises(ValidationError):
        Sample.model_validate(value)


DECIMALS = st.decimals("-99999999999999999999", "99999999999999999999", allow_nan=False, places=24)


@given(DECIMALS)
def test_money_is_rounded_half_even_at_eighteen_places_and_never_through_a_float(value: Decimal) -> None:
    with localcontext(prec=80):
        expected = value.quantize(Decimal(1).scaleb(-18), ROUND_HALF_EVEN)
    assert read(money=value) == read(money=format(value, "f")) == expected


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("0.0000000000000000005", "0"),
        ("0.0000000000000000015", "0.000000000000000002"),
        ("-0.0000000000000000025", "-0.000000000000000002"),
        ("99999999999999999999", "99999999999999999999"),
        ("1e-18", "0.000000000000000001"),
        ("1E2", "100"),
    ],
)
def test_ties_go_to_the_even_digit(given_text: str, kept: str) -> None:
    assert read(money=Decimal(given_text)) == Decimal(kept)


@pytest.mark.parametrize(
    "value",
    [True, 1.5, "", "1,5", "NaN", "Infinity", "-", "0x1", " 1", "1e1000", Decimal("NaN"), Decimal("1e20"),
     Decimal("99999999999999999999.9999999999999999999"), 10**400, "9" * 61, "١"],
)  # fmt: skip
def test_money_that_is_no_decimal_below_the_limit_is_refused(value: Any) -> None:
    refused(money=value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-05T10:00:00Z", datetime(2026, 1, 5, 10, tzinfo=UTC)),
        ("2026-01-05t10:00:00z", datetime(2026, 1, 5, 10, tzinfo=UTC)),
        ("2026-01-05T10:00:00.123456+14:00", datetime(2026, 1, 4, 20, 0, 0, 123456, tzinfo=UTC)),
        ("2026-01-05T10:00:00-12:00", datetime(2026, 1, 5, 22, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999998Z", datetime(9999, 12, 31, 23, 59, 59, 999998, tzinfo=UTC)),
        ("0001-01-01T14:00:00.000001+14:00", datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    ],
)
def test_b04_instants_become_utc_with_their_microseconds(text: str, expected: datetime) -> None:
    assert read(instant=text) == expected


@pytest.mark.parametrize(
    "text",
    ["2026-01-01T00:00:00", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "0001-01-01T14:00:00+14:00",
     "9999-12-31T23:59:59.999999Z", "1767607200000", 1767607200000,
     "infinity", "-infinity", "2026-13-01T00:00:00Z", "2026-01-01T24:30:00Z", "2026-02-30T00:00:00Z", "2026-01-01",
     "2026-01-01 00:00:00Z", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00Z\n", "٢٠٢٦-01-01T00:00:00Z", True],
)  # fmt: skip
def test_b04_naive_and_extreme_instants_are_refused(text: Any) -> None:
    refused(instant=text)


def test_ids_are_bounded_in_bytes_and_may_hold_any_other_character() -> None:
    for fine in ("x" * 255, "é" * 127 + "x", "\U0001f600" * 63, "a/b", "%", " ", "..."):
        assert read(id=fine) == fine
    for bad in ("", "x" * 256, "é" * 128, "a\x00", "\ud800", ".", "..", "latest", 1, None.__class__):
        refused(id=bad)


def test_b03_counts_are_integers_that_a_double_holds() -> None:
    assert read(count=INTEGER_MAX) == 2**53 - 1
    for bad in (2**53, -1, "1", True, Decimal("1.5"), 1.0, 10**30):
        refused(count=bad)


def test_b02_scores_are_finite_doubles() -> None:
    assert read(score=Decimal("0.1")) == 0.1
    assert read(score=10**300) == 1e300
    for bad in (Decimal("1e400"), 10**400, True, "1", float("nan"), float("inf")):
        refused(score=bad)


def test_b01_text_refuses_nul_and_lone_surrogates() -> None:
    assert read(text="") == ""
    assert read(text="line\nline\n") == "line\nline\n"
    for bad in ("\x00", "a\x00b", "\ud800", "x\udfff", 1):
        refused(text=bad)


class Asked(Query):
    """One parameter of each type."""

    number: Count | None = None
    flag: bool | None = None
    score: QueryScore | None = None
    wait: Annotated[float, Field(ge=0)] | None = None


def test_query_parameters_are_spelled_as_json_spells_them() -> None:
    asked = Asked.model_validate({"number": "10", "flag": "true", "score": "-0.5e1", "wait": "1.5E1"})
    assert (asked.number, asked.flag, asked.score, asked.wait) == (10, True, -5.0, 15)
    for name, texts in {
        "number": (" 1", "1_0", "+1", "01", "1.0", "1e1", "", "one", "１"),
        "flag": ("1", "yes", "True", "on", ""),
        "score": (" 1", "1_0", "nan", "inf", ""),
        "wait": (" 1", "1 ", "1_0", "+1", "01", "1.", ".5", "nan", "inf", "１", ""),
    }.items():
        for text in texts:
            with pytest.raises(ValidationError):
                Asked.model_validate({name: text})
