"""Ed25519: the service signs what it vouches for, and anybody can check that with its public key."""

from __future__ import annotations

import base64
import secrets

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from app.settings import SigningSettings
from app.settings.keeping import ED25519_BYTES

ALGORITHM = "ed25519"


class Signer:
    """Signs with the key of a seed of 32 bytes. `public_key` is base64."""

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_key = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, content: bytes) -> dict[str, str]:
        """The signature of exactly these bytes: `algorithm`, `public_key` and `value`, the last two in base64."""
        value = base64.b64encode(self._key.sign(content)).decode()
        return {"algorithm": ALGORITHM, "public_key": self.public_key, "value": value}


def signer_of(settings: SigningSettings) -> Signer | None:
    """What signs for this service; None where it has no key."""
    return None if settings.key is None else Signer(base64.b64decode(settings.key.get_secret_value()))


def holds(public_key: str, value: str, content: bytes) -> bool:
    """Whether this is the signature of exactly these bytes under this key, both in base64."""
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(base64.b64decode(value, validate=True), content)
    except (ValueError, InvalidSignature):
        return False
    return True


def public_key_of(seed: str) -> str:
    """The public key that belongs to a key for CAIRN_SIGNING__KEY; both in base64."""
    return Signer(base64.b64decode(seed)).public_key


def new_seed() -> str:
    """A new key for CAIRN_SIGNING__KEY, in base64."""
    return base64.b64encode(secrets.token_bytes(ED25519_BYTES)).decode()
