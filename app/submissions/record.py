"""Reads what the service needs of a settlement's record; the record itself stays the text that it is."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from app.errors import invalid
from app.submissions.tables import OUTCOMES

# What text columns cannot hold.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Settlement(NamedTuple):
    """What a record says of its submission: how it ends, and with which error."""

    outcome: str
    error: str | None


def read_settlement(record: bytes, record_id: str) -> Settlement:
    """The outcome and the error's text of a record. Raises `InvalidInput` where it is no record of this id.

    Whatever else it holds may be beyond what this process or PostgreSQL can hold: numbers are not converted. What a
    text column cannot hold of the error is replaced.
    """
    members = json.loads(record, parse_int=_number, parse_float=_number)
    if not isinstance(members, dict):
        raise invalid("/record", "must be an object")
    if members.get("id") != record_id:
        raise invalid("/record/id", "must be the record_id")
    outcome = members.get("outcome")
    if outcome not in OUTCOMES:
        raise invalid("/record/outcome", f"must be one of {', '.join(OUTCOMES)}")
    return Settlement(outcome, _error(members.get("error")))


def _error(error: Any) -> str | None:
    if isinstance(error, dict):
        error = error.get("message")
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", error) if isinstance(error, str) else None


def _number(_text: str) -> None:
    """Numbers are not looked at."""
