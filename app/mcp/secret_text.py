"""Tells texts that have a secret within them: an assignment, an option, a header, a URL's, or a well-known form."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from app.mcp.secret_names import Guard, guard_of

_REFERENCE = re.compile(r"(?:(?:Bearer|Basic|Token) )?\$\{(?:(?:env|input|secret):)?[A-Za-z_][A-Za-z0-9_-]{0,127}\}")
_ASSIGNED = re.compile(r"-{0,2}([A-Za-z_][A-Za-z0-9_.-]*)[=:](.*)", re.DOTALL)
# Wherever a name is given a value: `NAME=value`, `name: value`, `"name": "value"`, `?name=value`, `--env=NAME=value`.
# The value is looked at and not taken, since it may assign in its turn; every quantifier is bounded or possessive.
_ASSIGNMENT = re.compile(
    r"(?<![\w.-])([\w.-]++)[\"'`\]]?+\s*+[=:]+\s*+[\"'`]?+"
    r"(?=((?:(?:Bearer|Basic|Token)\s{1,8})?[^\s\"'`,;&#)]{1,300}))"
)
_OPTION = re.compile(r"-{1,2}(\w[\w-]*)[=:]?")
_USER_INFO = re.compile(r"://[^/?#\s:@]*:([^/?#\s@]+)@")
# A user's name alone is none, unless it is so long that it is a token.
_LONG_USER = re.compile(r"://([^/?#\s:@]{20,})@")
_SCHEME = re.compile(r"\b(?:Bearer|Basic)\s+(\S+)", re.IGNORECASE)
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[\w-]{16,}|[srp]k_(?:live|test)_\w{16,}|gh[opsru]_\w{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|hf_\w{20,}|npm_\w{20,}|pypi-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,2048}\.[\w-]{8,}\.[\w-]|-----BEGIN |hooks\.slack\.com/services/\w)"
)


def carries(text: str) -> bool:
    """Whether a text has a secret within it, as it stands or with its percent-encoding undone."""
    text = unicodedata.normalize("NFKC", text)
    return _carries(text) or ("%" in text and _carries(unquote(text)))


def is_reference_text(text: str) -> bool:
    """Whether this is `${NAME}`, after a scheme or not, and the name is none of the well-known forms."""
    return _REFERENCE.fullmatch(text) is not None and not is_known_form(text)


def is_known_form(text: str) -> bool:
    """Whether a well-known form of keys is within the text."""
    return _KNOWN.search(text) is not None


def assignment(text: str) -> tuple[str, str] | None:
    """Name and value where the whole text is `NAME=value`, as lists of variables have it."""
    match = _ASSIGNED.fullmatch(text)
    return None if match is None else (match[1], match[2].strip())


def asked(option: Any, argument: Any) -> Guard:
    """What may stand as the argument after another: where that is an option of a secret, this is its value."""
    match = _OPTION.fullmatch(option) if isinstance(option, str) else None
    if match is None or (isinstance(argument, str) and argument.startswith("-")):
        return Guard.ANYTHING
    return guard_of(match[1], argument)


def _carries(text: str) -> bool:
    return (
        is_known_form(text)
        or any(
            not is_reference_text(match[1])
            for pattern in (_SCHEME, _USER_INFO, _LONG_USER)
            for match in pattern.finditer(text)
        )
        or any(
            guard_of(match[1], match[2]) is not Guard.ANYTHING and not is_reference_text(match[2])
            for match in _ASSIGNMENT.finditer(text)
        )
        or _options_carry(text.split())
    )


def _options_carry(words: Sequence[str]) -> bool:
    return any(
        asked(word, following) is not Guard.ANYTHING and not is_reference_text(following)
        for word, following in pairwise(words)
    )
