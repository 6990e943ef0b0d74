"""What is kept, and for how long: backups, retention, the clean-up of what is stale, and the key that signs for it."""

from __future__ import annotations

import base64

from pydantic import Field, SecretStr, field_validator

from app.settings.group import MIB, Group

# A public key of Ed25519, and the seed of a secret one.
ED25519_BYTES = 32


class BackupSettings(Group):
    """How backups are made, and what is restored."""

    compression_level: int = Field(1, ge=1, le=19, description="Level of zstd.")
    upload_bytes_max: int = Field(
        64 * 1024 * MIB, ge=1024, le=16 * 1024 * 1024 * MIB, description="Largest backup to restore, in bytes."
    )
    line_bytes_max: int = Field(
        512 * MIB, ge=1024, le=1024 * MIB, description="Longest line of a backup to restore, in bytes."
    )
    job_seconds: float = Field(
        86_400, ge=60, le=31_536_000, description="Longest time that one backup or one restore may take."
    )
    idle_seconds: float = Field(1.0, gt=0, le=60, description="How often backups to be made are looked for.")


class RetentionSettings(Group):
    """How what is old leaves."""

    look_seconds: float = Field(3600, gt=0, le=86_400, description="How often the rules of all tenants are followed.")
    batch_rows: int = Field(500, ge=1, le=10_000, description="Rows that leave in one transaction, at most.")


class OffboardingSettings(Group):
    """How tenants leave."""

    look_seconds: float = Field(5, gt=0, le=3600, description="How often tenants that leave are looked for.")
    batch_rows: int = Field(
        2000, ge=1, le=10_000, description="Rows of a tenant that leave in one transaction, at most."
    )
    settle_seconds: float = Field(
        300,
        ge=0,
        le=86_400,
        description="Pause before everything is looked for once more: longer than the longest request may take, from"
        " the end of its body.",
    )


class SigningSettings(Group):
    """The key that signs manifests of backups and receipts."""

    key: SecretStr | None = Field(
        None,
        description="32 bytes in base64, the seed of an Ed25519 key (`cairn keys signing` makes one). Empty: nothing is"
        " signed.",
    )
    trusted_keys: list[str] = Field(
        [],
        description="Ed25519 public keys in base64, as a JSON list. With any, only backups that one of them signed are"
        " restored.",
    )

    @field_validator("key")
    @classmethod
    def is_a_seed(cls, key: SecretStr | None) -> SecretStr | None:
        """Refuse what is no seed, before something is to be signed."""
        if key is not None and len(_decoded(key.get_secret_value())) != ED25519_BYTES:
            raise ValueError(f"must be {ED25519_BYTES} bytes in base64; `cairn keys signing` makes one")
        return key

    @field_validator("trusted_keys")
    @classmethod
    def are_public_keys(cls, keys: list[str]) -> list[str]:
        """Refuse what is no public key, before a backup is refused for it."""
        if any(len(_decoded(key)) != ED25519_BYTES for key in keys):
            raise ValueError(f"must each be {ED25519_BYTES} bytes in base64")
        return keys


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError("must be base64") from error
