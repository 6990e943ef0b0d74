"""Finds what may be a secret value in a configuration, so that it is refused before anything is stored."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Any

from app.mcp.errors import SecretRefused

FOUND_MAX = 100
# A member, option, header or query parameter whose name holds one of these, however it is spelt, is a secret …
PARTS = ("secret", "token", "password", "passwd", "passphrase", "credential", "authorization", "apikey", "accesskey",
         "privatekey", "cookie", "bearer")  # fmt: skip
# … except within these, …
HARMLESS = re.compile("tokeni[sz](?:e|ed|er|ers|ation|ing)|secretar(?:y|iat)")
# … and one that has one of these as a word of its own may be a secret.
WORDS = frozenset({"key", "keys", "auth", "pass", "pwd", "jwt", "pat", "creds"})
# Neither is, where the last word says what the value is instead: where a secret is found, or of which kind it is.
DESCRIPTIONS = frozenset({"url", "uri", "endpoint", "file", "path", "dir", "name", "type", "algorithm"})
# Nor is a number whose name has one of these words: it counts tokens, or says how long one lives.
MEASURES = frozenset({"max", "min", "limit", "count", "budget", "per", "total", "size", "length", "window", "ttl",
                      "timeout", "seconds", "minutes", "hours", "days"})  # fmt: skip
# Below these every value may be a secret, since nobody can tell which is one …
HOLDERS = frozenset({"env", "environment", "envvars", "headers", "httpheaders", "requestheaders"})
# … except under a name that ends in one of these. No URL: one may be all that it takes to get in.
PLAIN = frozenset({"level", "debug", "verbose", "mode", "format", "env", "port", "host", "hostname", "region", "tz",
                   "timezone", "lang", "language", "locale", "encoding", "timeout", "accept", "agent", "version",
                   "file", "path", "dir", "home", "name", "type", "algorithm"})  # fmt: skip
MESSAGE = (
    'must be a reference, such as {"secret_ref": "name"} or "${NAME}", since secret values are never stored;'
    ' where the name alone does not say that it is a secret, {"plain": …} says that it is none'
)

_REFERENCE = re.compile(r"(?:(?:Bearer|Basic|Token) )?\$\{(?:(?:env|input|secret):)?[A-Za-z_][A-Za-z0-9_-]{0,127}\}")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ASSIGNED = re.compile(r"-{0,2}([A-Za-z_][A-Za-z0-9_.-]*)[=:](.*)", re.DOTALL)
_SWITCH = re.compile(r"(?i:true|false|yes|no|on|off|[01])")
_NUMBER = re.compile(r"[0-9]{1,9}")
_OPTION = re.compile(r"-{1,2}([A-Za-z][A-Za-z0-9_-]*)")
_HEADER = re.compile(r"\s*([A-Za-z][A-Za-z0-9_-]*)\s*:\s*(.+)", re.DOTALL)
_USER_INFO = re.compile(r"://[^/?#\s:@]*:([^/?#\s@]+)@")
_QUERY = re.compile(r"[?&;]([^=&;#?\s]+)=([^&;#\s]+)")
_SCHEME = re.compile(r"\b(?:Bearer|Basic)\s+(\S+)", re.IGNORECASE)
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[\w-]{16,}|gh[opsru]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
    r"|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,2048}\.[\w-]{8,}\.[\w-]|-----BEGIN )"
)


class Guard(IntEnum):
    """What may stand in a place."""

    ANYTHING = 0
    """Any text that does not itself show that a secret is in it."""
    PLAINLY = 1
    """A reference, or what is said to be plain: `{"plain": …}`."""
    REFERENCES = 2
    """References alone."""


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
    """The places in the order in which they stand; a guard goes down to everything below a name."""
    pending: list[tuple[str, Any, Guard]] = [(pointer, config, Guard.ANYTHING)]
    while pending:
        place, value, guard = pending.pop()
        if is_reference(value):
            continue
        if isinstance(value, dict):
            if guard < Guard.REFERENCES and _is_said_to_be_plain(value):
                if _carries(str(value["plain"])):
                    yield f"{place}/plain"
                continue
            yield from (f"{place}/{_escaped(name)}" for name in value if _carries(name))
            below = [(f"{place}/{_escaped(name)}", item, _below(guard, name, item)) for name, item in value.items()]
            pending += reversed(below)
        elif isinstance(value, list):
            before = [None, *value]
            below = [(f"{place}/{n}", item, max(guard, _asked(before[n], item))) for n, item in enumerate(value)]
            pending += reversed(below)
        elif not _may_stand(value, guard):
            yield place


def _below(guard: Guard, name: str, item: Any) -> Guard:
    """The guard of a member: its own, and that of what it stands in."""
    own = guard_of(name, item)
    if guard is Guard.PLAINLY and own is Guard.ANYTHING and PLAIN.intersection(_words(name)[-1:]):
        return Guard.ANYTHING
    return max(guard, own, Guard.PLAINLY if _squashed(name) in HOLDERS else Guard.ANYTHING)


def _may_stand(value: Any, guard: Guard) -> bool:
    if value is None or isinstance(value, bool) or value == "":
        return True
    if guard is Guard.ANYTHING:
        return not (isinstance(value, str) and _carries(value))
    if guard is Guard.PLAINLY and _SWITCH.fullmatch(str(value)):
        return True
    match = _ASSIGNED.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return False
    # `NAME=value`, as lists of variables have it.
    name, assigned = match[1], match[2].strip()
    return is_reference(assigned) or (guard is Guard.PLAINLY and _may_stand(assigned, _below(guard, name, assigned)))


def _is_said_to_be_plain(value: dict[str, Any]) -> bool:
    return len(value) == 1 and isinstance(value.get("plain"), str | int | float)


def is_reference(value: Any) -> bool:
    """Whether this stands for a secret without being one: `{"secret_ref": …}` or `${NAME}`, after a scheme or not."""
    if isinstance(value, dict):
        name = value.get("secret_ref")
        return len(value) == 1 and isinstance(name, str) and 0 < len(name) <= 255 and not _KNOWN.search(name)
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def guard_of(name: str, value: Any = None) -> Guard:
    """What may stand under a name, whatever it stands in."""
    words = _words(name)
    is_secret = any(part in HARMLESS.sub("", _squashed(name)) for part in PARTS)
    if not is_secret and WORDS.isdisjoint(words):
        return Guard.ANYTHING
    if DESCRIPTIONS.intersection(words[-1:]) or (_is_number(value) and not MEASURES.isdisjoint(words)):
        return Guard.ANYTHING
    return Guard.REFERENCES if is_secret else Guard.PLAINLY


def _carries(text: str) -> bool:
    """Whether a text has a secret within it: an assignment, an option, a header, a URL's, or a known form."""
    words = text.split()
    return (
        _KNOWN.search(text) is not None
        or any(not is_reference(match[1]) for match in (*_SCHEME.finditer(text), *_USER_INFO.finditer(text)))
        or any(_assigns(match) for match in _QUERY.finditer(text))
        or _assigns(_HEADER.fullmatch(text))
        or any(_assigns(_ASSIGNED.fullmatch(word)) for word in words)
        or _options_carry(words)
    )


def _assigns(match: re.Match[str] | None) -> bool:
    return (
        match is not None
        and match[2] != ""
        and not is_reference(match[2])
        and guard_of(match[1], match[2]) is not Guard.ANYTHING
    )


def _options_carry(words: Sequence[str]) -> bool:
    return any(
        _asked(word, following) is not Guard.ANYTHING and not is_reference(following)
        for word, following in pairwise(words)
    )


def _asked(option: Any, argument: Any) -> Guard:
    """What may stand as the argument after another: where that is an option of a secret, this is its value."""
    match = _OPTION.fullmatch(option) if isinstance(option, str) else None
    if match is None or (isinstance(argument, str) and argument.startswith("-")):
        return Guard.ANYTHING
    return guard_of(match[1], argument)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(unicodedata.normalize("NFKC", name))]


def _squashed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKC", name).lower())


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
