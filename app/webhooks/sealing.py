"""Sealing what must not lie readable in the database: the secrets of webhooks and their custom headers."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from app.errors import Conflict
from app.settings.webhooks import encryption_keys

What = Literal["secret", "headers"]
# What tells a digest from everything else that may be made with the same key.
DIGEST = b"digest of a webhook: "
INSTEAD: dict[What, str] = {"secret": "rotate the secret", "headers": "give the headers anew with PATCH"}

# So many are held open.
OPENED_MAX = 4096


class EncryptionKeyMissing(Conflict):
    """No key is set that could seal a secret, or none that opens this one."""

    code, title = "encryption_key_missing", "The key that protects secrets of webhooks is missing"


def new_key() -> str:
    """A new key for CAIRN_WEBHOOKS__ENCRYPTION_KEYS."""
    return Fernet.generate_key().decode()


class Seal:
    """Seals with the first of its keys and opens with any, so that keys can be exchanged one after the other."""

    def __init__(self, keys: str | None) -> None:
        """Takes keys as in the settings, separated by commas. Raises ValueError, without the key, for a damaged one."""
        given = encryption_keys(keys or "")
        self._written = [key.encode() for key in given]
        self._keys = MultiFernet([Fernet(key) for key in given]) if given else None

    def seal(self, plain: bytes) -> bytes:
        """The sealed form of these bytes. Raises `EncryptionKeyMissing` without any key."""
        return self._available().encrypt(plain)

    def open(self, sealed: bytes, what: What = "secret") -> bytes:
        """What was sealed. Raises `EncryptionKeyMissing` where none of the keys opens it."""
        try:
            return self._available().decrypt(sealed)
        except InvalidToken:
            raise EncryptionKeyMissing(
                f"None of the keys in CAIRN_WEBHOOKS__ENCRYPTION_KEYS opens the {what} of the webhook: add the key that"
                f" was used after the others, or {INSTEAD[what]}."
            ) from None

    def digests(self, plain: bytes) -> Sequence[bytes]:
        """What these bytes are known by again, to nobody without the keys: by the first of them, then by the others.

        Raises `EncryptionKeyMissing` without any key.
        """
        self._available()
        return [hmac.digest(key, DIGEST + plain, "sha256") for key in self._written]

    def _available(self) -> MultiFernet:
        if self._keys is None:
            raise EncryptionKeyMissing(
                "Set CAIRN_WEBHOOKS__ENCRYPTION_KEYS to a key that `cairn webhooks new-key` makes: it protects the"
                " secrets of webhooks, and none is set."
            )
        return self._keys


class Secrets:
    """What is sealed, opened once for as long as it is in use."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._opened: dict[bytes, str] = {}

    def signing(self, secret: bytes, previous: bytes | None) -> tuple[str, ...]:
        """The secrets that sign. Raises `EncryptionKeyMissing` for the present one.

        One before it whose key was taken away signs no more: it would hold up what was rotated for that.
        """
        found = [self._text(secret, "secret")]
        if previous is not None:
            with suppress(EncryptionKeyMissing):
                found.append(self._text(previous, "secret"))
        return tuple(found)

    def headers(self, sealed: bytes) -> Mapping[str, str]:
        """The headers that were sealed as a JSON object. Raises `EncryptionKeyMissing`."""
        read: dict[str, str] = json.loads(self._text(sealed, "headers"))
        return read

    def _text(self, sealed: bytes, what: What) -> str:
        opened = self._opened.get(sealed)
        if opened is None:
            if len(self._opened) >= OPENED_MAX:
                self._opened.clear()
            opened = self._opened[sealed] = self._seal.open(sealed, what).decode()
        return opened
