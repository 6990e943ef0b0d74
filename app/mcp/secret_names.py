"""Tells what may stand under a name: anything, what is said to be plain, or references alone."""

from __future__ import annotations

import re
import unicodedata
from enum import IntEnum
from typing import Any

# A member, option, header or query parameter whose name holds one of these, however it is spelt, is a secret …
PARTS = ("secret", "token", "password", "passwd", "passphrase", "passcode", "credential", "authorization", "apikey",
         "accesskey", "privatekey", "signingkey", "encryptionkey", "masterkey", "authkey", "sshkey", "dbpass",
         "userpass", "cookie", "bearer")  # fmt: skip
# … except within these, …
HARMLESS = re.compile("tokeni[sz](?:e|ed|er|ers|ation|ing)|secretar(?:y|iat)")
# … and one that has one of these as a word of its own may be a secret.
WORDS = frozenset({"key", "keys", "auth", "oauth", "pass", "pwd", "mysqlpwd", "jwt", "pat", "creds", "otp", "totp",
                   "sig", "signature"})  # fmt: skip
# Neither is, where the last word says what the value is instead: where a secret is found, or of which kind it is.
DESCRIPTIONS = frozenset({"url", "uri", "endpoint", "file", "path", "dir", "name", "type", "algorithm"})
# Nor is a number whose name has one of these words: it counts tokens, or says how long one lives.
MEASURES = frozenset({"max", "min", "limit", "count", "budget", "per", "total", "size", "length", "window", "ttl",
                      "timeout", "seconds", "minutes", "hours", "days"})  # fmt: skip
# Below these every value may be a secret, since nobody can tell which is one, and so it is within an object or list
# whose name ends in one of them …
HOLDERS = ("env", "environment", "envvars", "envvariables", "environmentvariables", "headers")
# … except under a name that ends in one of these. No URL: one may be all that it takes to get in.
PLAIN = frozenset({"level", "debug", "verbose", "mode", "format", "env", "port", "host", "hostname", "region", "tz",
                   "timezone", "lang", "language", "locale", "encoding", "timeout", "accept", "agent", "version",
                   "file", "path", "dir", "home", "name", "type", "algorithm"})  # fmt: skip

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBER = re.compile(r"[0-9]{1,9}")


class Guard(IntEnum):
    """What may stand in a place."""

    ANYTHING = 0
    """Any text that does not itself show that a secret is in it."""
    PLAINLY = 1
    """A reference, or what is said to be plain: `{"plain": …}`."""
    REFERENCES = 2
    """References alone."""


def guard_of(name: str, value: Any = None) -> Guard:
    """What may stand under a name, whatever it stands in."""
    plain = _without_marks(name)
    words = _words(plain)
    is_secret = any(part in HARMLESS.sub("", _squashed(plain)) for part in PARTS)
    if not is_secret and WORDS.isdisjoint(words):
        return Guard.PLAINLY if _mixes_alphabets(plain) else Guard.ANYTHING
    if DESCRIPTIONS.intersection(words[-1:]) or (_is_number(value) and not MEASURES.isdisjoint(words)):
        return Guard.ANYTHING
    return Guard.REFERENCES if is_secret else Guard.PLAINLY


def guard_below(guard: Guard, name: str, item: Any) -> Guard:
    """The guard of a member: its own, and that of what it stands in."""
    own = guard_of(name, item)
    plain = _without_marks(name)
    if guard is Guard.PLAINLY and own is Guard.ANYTHING and PLAIN.intersection(_words(plain)[-1:]):
        return Guard.ANYTHING
    return max(guard, own, Guard.PLAINLY if _holds(_squashed(plain), item) else Guard.ANYTHING)


def _holds(squashed: str, item: Any) -> bool:
    return squashed.endswith(HOLDERS) if isinstance(item, dict | list) else squashed in HOLDERS


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float)


def _without_marks(name: str) -> str:
    """The letters without their accents, and each in its usual form."""
    if name.isascii():
        return name
    return "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))


def _words(plain: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(plain)]


def _squashed(plain: str) -> str:
    return re.sub(r"[^a-z0-9]", "", plain.lower())


def _mixes_alphabets(plain: str) -> bool:
    """Whether a word has Latin letters beside others, as one that is to be misread has."""
    if plain.isascii():
        return False
    return any(
        len({"LATIN" in unicodedata.name(char, "") for char in word if char.isalpha()}) == 2
        for word in re.split(r"[\W_]+", plain)
    )
