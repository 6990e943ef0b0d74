"""Finds what may be a secret value in a configuration, so that it is refused before anything is stored."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from app.mcp.errors import SecretRefused

FOUND_MAX = 100
# A member, option, header or query parameter whose name holds one of these, however it is spelt …
PARTS = ("secret", "token", "password", "passwd", "passphrase", "credential", "authorization", "apikey", "cookie",
         "bearer")  # fmt: skip
# … or has one of these as a word of its own.
WORDS = frozenset({"key", "keys", "auth", "pass", "pwd", "jwt", "pat"})
# Below these every value is taken for a secret, since nobody can tell which is one.
HOLDERS = frozenset({"env", "environment", "envvars", "headers", "httpheaders", "requestheaders"})
MESSAGE = 'must be a reference, such as {"secret_ref": "name"} or "${NAME}", since secret values are never stored'

_REFERENCE = re.compile(r"(?:(?:Bearer|Basic|Token) )?\$\{(?:(?:env|input|secret):)?[A-Za-z_][A-Za-z0-9_-]{0,127}\}")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ASSIGNED = re.compile(r"-{0,2}([A-Za-z_][A-Za-z0-9_.-]*)[=:](.*)", re.DOTALL)
_OPTION = re.compile(r"-{1,2}([A-Za-z][A-Za-z0-9_-]*)")
_HEADER = re.compile(r"\s*([A-Za-z][A-Za-z0-9_-]*)\s*:\s*(.+)", re.DOTALL)
_USER_INFO = re.compile(r"://[^/?#\s:@]*:([^/?#\s@]+)@")
_QUERY = re.compile(r"[?&;]([^=&;#?\s]+)=([^&;#\s]+)")
_SCHEME = re.compile(r"\b(?:Bearer|Basic)\s+(\S+)", re.IGNORECASE)
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[\w-]{16,}|gh[opsru]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
    r"|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,2048}\.[\w-]{8,}\.[\w-]|-----BEGIN )"
)


def refuse_secrets(pointer: str, config: bytes) -> None:
    """Raise `SecretRefused` naming, by JSON Pointer, every place of a configuration that may hold a secret value.

    The refusal never repeats a value.
    """
    found = list(_found(pointer, json.loads(config)))[:FOUND_MAX]
    if found:
        raise SecretRefused(
            f"{found[0]}: {MESSAGE}.", errors=[{"pointer": place, "message": MESSAGE} for place in found]
        )


def _found(pointer: str, config: Any) -> Iterator[str]:
    """The places in the order in which they stand; `guarded` goes down to everything below a name."""
    pending: list[tuple[str, Any, bool]] = [(pointer, config, False)]
    while pending:
        place, value, guarded = pending.pop()
        if is_reference(value):
            continue
        if isinstance(value, dict):
            below = [
                (f"{place}/{_escaped(name)}", item, guarded or is_guarded(name) or _squashed(name) in HOLDERS)
                for name, item in value.items()
            ]
            yield from (inner for (inner, _, _), name in zip(below, value, strict=True) if _carries(name))
            pending += reversed(below)
        elif isinstance(value, list):
            follows = [False, *map(_asks_for_more, value)]
            pending += reversed(
                [(f"{place}/{index}", item, guarded or (follows[index] and not _is_option(item)))
                 for index, item in enumerate(value)]
            )  # fmt: skip
        elif guarded:
            if not (value is None or value is True or value is False or value == "" or _assigns_reference(value)):
                yield place
        elif isinstance(value, str) and _carries(value):
            yield place


def is_reference(value: Any) -> bool:
    """Whether this stands for a secret without being one: `{"secret_ref": …}` or `${NAME}`, after a scheme or not."""
    if isinstance(value, dict):
        name = value.get("secret_ref")
        return len(value) == 1 and isinstance(name, str) and 0 < len(name) <= 255 and not _KNOWN.search(name)
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def is_guarded(name: str) -> bool:
    """Whether what is named so is taken for a secret."""
    squashed = _squashed(name)
    words = {word.lower() for word in _WORDS.findall(unicodedata.normalize("NFKC", name))}
    return any(part in squashed for part in PARTS) or not words.isdisjoint(WORDS)


def _carries(text: str) -> bool:
    """Whether a text has a secret within it: an assignment, an option, a header, a URL's, or a known form."""
    words = text.split()
    return (
        _KNOWN.search(text) is not None
        or any(not is_reference(match[1]) for match in (*_SCHEME.finditer(text), *_USER_INFO.finditer(text)))
        or any(is_guarded(match[1]) and not is_reference(match[2]) for match in _QUERY.finditer(text))
        or _assigns(_HEADER.fullmatch(text))
        or any(_assigns(_ASSIGNED.fullmatch(word)) for word in words)
        or _options_carry(words)
    )


def _assigns(match: re.Match[str] | None) -> bool:
    return match is not None and is_guarded(match[1]) and match[2] != "" and not is_reference(match[2])


def _options_carry(words: Sequence[str]) -> bool:
    return any(
        _asks_for_more(word) and not _is_option(following) and not is_reference(following)
        for word, following in pairwise(words)
    )


def _asks_for_more(item: Any) -> bool:
    """Whether an argument is an option that takes a secret as the next one."""
    match = _OPTION.fullmatch(item) if isinstance(item, str) else None
    return match is not None and is_guarded(match[1])


def _is_option(item: Any) -> bool:
    return isinstance(item, str) and item.startswith("-")


def _assigns_reference(value: Any) -> bool:
    """Whether this is `NAME=${NAME}`, as lists of variables have it."""
    match = _ASSIGNED.fullmatch(value) if isinstance(value, str) else None
    return match is not None and is_reference(match[2].strip())


def _squashed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKC", name).lower())


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
