"""Numbers of a body that are decoded: never a float on the way."""

from __future__ import annotations

from decimal import Decimal

WHOLE_DIGITS_MAX = 20


def number(text: str) -> int | Decimal:
    """A number with all its digits. `8.0` is the integer 8, as it is in JSON Schema.

    One that neither type can hold is no number, which every field refuses by name.
    """
    try:
        if text.lstrip("-").isdigit():
            return int(text)
        exact = Decimal(text)
    except (ValueError, ArithmeticError):
        return Decimal("NaN")
    if exact.adjusted() >= WHOLE_DIGITS_MAX or (exact.is_zero() and exact.is_signed()):
        return exact
    whole = exact.to_integral_value()
    return int(whole) if whole == exact else exact
