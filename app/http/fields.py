"""The field types of request models: ids, text, instants, money, scores, counts. Each states its own bound."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Annotated, Any, ClassVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from app.http.verbatim import JsonObject, JsonValue, Verbatim

__all__ = [
    "Body",
    "Count",
    "Id",
    "Instant",
    "JsonObject",
    "JsonValue",
    "Money",
    "Name",
    "Query",
    "Score",
    "Text",
    "Verbatim",
]

# What holds no body within it; the hot routes have many such members in each call.
_SIMPLE = frozenset({str, int, float, bool, type(None), Verbatim})
ID_BYTES_MAX, NAME_BYTES_MAX = 255, 1024
# What a path cannot carry, and with it the words that are routes beside an id.
PATH_WORDS = frozenset({".", ".."})
RESERVED_IDS = frozenset(
    {
        *(*PATH_WORDS, "latest", "summary", "unsettled", "lookup", "query", "restore"),
        *("claim-next", "renew-leases", "abort-session"),
    }
)
INTEGER_MAX = 2**53 - 1
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII).fullmatch
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_NUMBER = re.compile(r"-?[0-9]{1,60}(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,3})?").fullmatch
_DECIMAL = r"-?[0-9]{1,20}(\.[0-9]{1,60})?([eE]-[0-9]{1,3})?"
_MONEY = Context(prec=60, rounding=ROUND_HALF_EVEN)
_MONEY_STEP = Decimal(1).scaleb(-18)
_MONEY_LIMIT = Decimal(10) ** 20


class Body(BaseModel):
    """A request body: strict, closed to unknown members, frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)
    levels_around: ClassVar[int] = 0

    def given(self) -> dict[str, Any]:
        """The members that the client sent, by name, nested ones too."""
        members = self.__dict__
        return {
            name: members[name] if type(members[name]) in _SIMPLE else _given(members[name])
            for name in self.model_fields_set
        }


def _given(value: Any) -> Any:
    if isinstance(value, Body):
        return value.given()
    return [_given(item) for item in value] if isinstance(value, list) else value


class Query(BaseModel):
    """The query parameters of a route: closed to unknown names; values are read from text, as JSON writes them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _as_json(cls, value: Any, info: ValidationInfo) -> Any:
        spelling, message = _spelling(cls, info.field_name or "")
        if isinstance(value, str) and spelling is not None and not spelling.fullmatch(value):
            raise ValueError(message)
        return value


@lru_cache(maxsize=1024)
def _spelling(model: type[BaseModel], name: str) -> tuple[re.Pattern[str] | None, str]:
    """How a parameter is to be written: pydantic alone would read ` 1`, `1_0` and `yes` too."""
    annotation = model.model_fields[name].annotation
    kinds = {part for part in (annotation, *get_args(annotation)) if isinstance(part, type)}
    kinds |= {get_args(part)[0] for part in get_args(annotation) if get_origin(part) is Annotated}
    if bool in kinds:
        return re.compile("true|false"), "must be true or false"
    if int in kinds:
        return re.compile("-?(0|[1-9][0-9]*)"), "must be an integer"
    if float in kinds:
        return re.compile("-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?"), "must be a number"
    return None, ""


def _id(value: str) -> str:
    if len(value) > 63 and len(value.encode()) > 255:
        raise ValueError("must be at most 255 bytes of UTF-8")
    if value in RESERVED_IDS:
        raise ValueError(f"must not be the word {value!r}")
    return value


def within(bytes_max: int) -> AfterValidator:
    """Marks a text that may have so many bytes of UTF-8."""

    def checked(value: str) -> str:
        if len(value) * 4 > bytes_max and len(value.encode()) > bytes_max:
            raise ValueError(f"must be at most {bytes_max} bytes of UTF-8")
        return value

    return AfterValidator(checked)


def _instant(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _INSTANT(value):
        raise ValueError("must be an RFC 3339 instant with an offset, such as 2026-01-05T10:00:00Z")
    try:
        instant = datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be an instant between the years 1 and 9999 in UTC") from None
    # To the driver the very first and last instants mean minus infinity and infinity.
    if instant in (_FIRST, _LAST):
        raise ValueError("must be an instant within the years 1 to 9999 in UTC, their very ends excepted")
    return instant


def _money(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise ValueError("must be a decimal number, or one as a string")
    try:
        if isinstance(value, str) and not re.fullmatch(_DECIMAL, value):
            raise InvalidOperation
        exact = Decimal(value)
        if not exact.is_finite() or exact.copy_abs() >= _MONEY_LIMIT:
            raise InvalidOperation
        rounded = exact.quantize(_MONEY_STEP, context=_MONEY)
    except (ArithmeticError, ValueError):
        raise ValueError("must be a decimal number below 10^20") from None
    if rounded.copy_abs() >= _MONEY_LIMIT:
        raise ValueError("must be a decimal number below 10^20")
    return rounded


def _score(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("must be a finite double-precision number")
    return number


def _query_score(value: Any) -> float:
    try:
        return _score(Decimal(value) if isinstance(value, str) and _NUMBER(value) else value)
    except InvalidOperation:
        raise ValueError("must be a number") from None


def _query_money(value: Any) -> Decimal:
    return _money(Decimal(value) if isinstance(value, str) and _NUMBER(value) else value)


NUMBER_SCHEMA = {"type": "number"}
MONEY_SCHEMA = {"type": "number", "exclusiveMinimum": -1e20, "exclusiveMaximum": 1e20}
INSTANT_SCHEMA = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$",
    "examples": ["2026-01-05T10:00:00.000000Z"],
}

Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
Id = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00]+$"), AfterValidator(_id)]
# No id, because it never stands in a URL's path: a session's key, an agent, the path of a stream. No word is reserved.
Name = Annotated[str, Field(min_length=1, max_length=NAME_BYTES_MAX, pattern=r"^[^\x00]+$"), within(NAME_BYTES_MAX)]
Instant = Annotated[datetime, BeforeValidator(_instant), WithJsonSchema(INSTANT_SCHEMA)]
Money = Annotated[
    Decimal,
    BeforeValidator(_money),
    WithJsonSchema(
        {
            "anyOf": [
                MONEY_SCHEMA,
                {"type": "string", "pattern": f"^{_DECIMAL}$"},
            ],
            "description": "A decimal below 10^20, kept to 18 places and never as a float.",
        }
    ),
]
QueryMoney = Annotated[Decimal, BeforeValidator(_query_money), WithJsonSchema(MONEY_SCHEMA)]
Score = Annotated[float, BeforeValidator(_score), WithJsonSchema(NUMBER_SCHEMA)]
QueryScore = Annotated[float, BeforeValidator(_query_score), WithJsonSchema(NUMBER_SCHEMA)]
Count = Annotated[int, Field(ge=0, le=INTEGER_MAX)]
