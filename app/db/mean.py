"""Means and differences of doubles in SQL that never fail, however large the doubles are."""

from __future__ import annotations

# `avg` adds up squares too, of as many times its input as there are rows.
_AVERAGED_MAX = "1e140"
_LARGEST = "1.7976931348623157e308"
# No fewer decimals than a double may have before its digits begin to go.
_DECIMALS = 300


def mean(column: str) -> str:
    """The SQL of a column's mean, null where it has no value.

    Usual doubles are left to `avg`, which fails for larger ones; those are added up as exact decimals.
    """
    usual = f"FILTER (WHERE abs({column}) <= {_AVERAGED_MAX})"
    average, others = f"avg({column}) {usual}", f"FILTER (WHERE abs({column}) > {_AVERAGED_MAX})"
    large = f"sum({_exact(column)}) {others}"
    whole = f"{large} + CAST(COALESCE({average} * count({column}) {usual}, 0) AS numeric)"
    return (
        f"CASE WHEN {large} IS NULL THEN {average}"
        f" ELSE CAST(round(({whole}) / count({column}), {_DECIMALS}) AS float8) END"
    )


def difference(one: str, other: str) -> str:
    """The SQL of one double less another; where that is more than a double holds, the double that comes nearest."""
    exact = f"LEAST(GREATEST({_exact(one)} - {_exact(other)}, -{_LARGEST}), {_LARGEST})"
    return (
        f"CASE WHEN {one} IS NOT NULL AND {other} IS NOT NULL AND GREATEST(abs({one}), abs({other})) > 1e300"
        f" THEN CAST({exact} AS float8) ELSE {one} - {other} END"
    )


def half(column: str) -> str:
    """The SQL of half a double, 0 for one that is next to nothing: no two halves are too far apart for a double."""
    return f"CASE WHEN abs({column}) < 1e-300 THEN 0 ELSE {column} / 2 END"


def _exact(double: str) -> str:
    # By way of its text, which has all its digits; a cast alone keeps 15.
    return f"CAST(CAST({double} AS text) AS numeric)"
