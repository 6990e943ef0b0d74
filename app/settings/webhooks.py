"""How webhooks are delivered, with which keys, and where to."""

from __future__ import annotations

import base64
import re
from ipaddress import IPv4Network, IPv6Network, ip_network

from pydantic import Field, SecretStr, field_validator

from app.settings.group import Group

HOST_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
SCHEDULE = re.compile(r"[0-9]{1,7}(\.[0-9]{1,3})?(,[0-9]{1,7}(\.[0-9]{1,3})?){0,49}")
ENCRYPTION_KEY_BYTES = 32


def encryption_keys(text: str) -> list[str]:
    """The keys that a setting lists, separated by commas. Raises ValueError, without the key, for a damaged one."""
    keys = [key.strip() for key in text.split(",") if key.strip()]
    for number, key in enumerate(keys, 1):
        try:
            is_key = len(base64.b64decode(key, altchars=b"-_", validate=True)) == ENCRYPTION_KEY_BYTES
        except ValueError:
            is_key = False
        if not is_key:
            raise ValueError(f"key {number} of {len(keys)} is damaged; `cairn webhooks new-key` makes a whole one")
    return keys


def networks_and_names(text: str) -> tuple[tuple[IPv4Network | IPv6Network, ...], frozenset[str]]:
    """The networks and the host names that a setting lists, separated by commas. Raises ValueError for neither."""
    networks, names = [], []
    for given in (part.strip().lower() for part in text.split(",") if part.strip()):
        try:
            networks.append(ip_network(given, strict=False))
        except ValueError:
            if not HOST_NAME.fullmatch(given) or re.fullmatch(r"[0-9.]+", given):
                raise ValueError(f"{given!r} is no network, such as 10.1.0.0/16, and no host name") from None
            names.append(given)
    return tuple(networks), frozenset(names)


class WebhookSettings(Group):
    """How webhooks are delivered."""

    encryption_keys: SecretStr | None = Field(
        None,
        description="Keys that seal the secrets of webhooks at rest, the newest first, separated by commas; `cairn"
        " webhooks new-key` makes one. Without any no webhook can be made.",
    )
    allow_private: str = Field(
        "",
        description="Networks (10.1.0.0/16) and host names that webhooks may reach although they are private, separated"
        " by commas.",
    )
    concurrency: int = Field(10, ge=1, le=100, description="Deliveries under way to one endpoint, over all processes.")
    in_flight_max: int = Field(
        500,
        ge=1,
        le=10_000,
        description="Deliveries under way in one process; those that have no answer for two seconds count apart, up to"
        " as many again.",
    )
    attempt_seconds: float = Field(
        15, gt=0, le=300, description="Longest time of one attempt, from the look-up of the name to the answer's end."
    )
    schedule: str = Field(
        "5,300,1800,7200,18000,36000,50400,72000,86400",
        description="Pauses after each failed attempt, in seconds; after the last one a delivery is a dead letter.",
    )
    retry_after_seconds_max: float = Field(
        86_400, ge=0, le=604_800, description="Longest pause that an endpoint's Retry-After can ask for."
    )
    disable_after_seconds: float = Field(
        432_000, gt=0, le=31_536_000, description="A webhook whose attempts all failed for so long is disabled."
    )
    response_bytes_max: int = Field(
        16_384, ge=0, le=1_048_576, description="How much of an endpoint's answer is read and kept, in bytes."
    )
    rotation_seconds: float = Field(
        86_400, ge=0, le=2_592_000, description="How long the old secret of a webhook still signs after a rotation."
    )
    look_seconds: float = Field(
        0.5, gt=0, le=60, description="How often due deliveries are looked for, besides when something moves."
    )
    hand_out_seconds: float = Field(
        30,
        gt=0,
        le=3600,
        description="A delivery handed out to be sent that nobody took for so long is handed out anew.",
    )

    @field_validator("encryption_keys")
    @classmethod
    def _are_keys(cls, given: SecretStr | None) -> SecretStr | None:
        encryption_keys(given.get_secret_value() if given else "")
        return given

    @field_validator("allow_private")
    @classmethod
    def _are_networks_and_names(cls, given: str) -> str:
        networks_and_names(given)
        return given

    @field_validator("schedule")
    @classmethod
    def _is_schedule(cls, given: str) -> str:
        if not SCHEDULE.fullmatch(given):
            raise ValueError("it takes 1 to 50 numbers of seconds, separated by commas, such as 5,300,1800")
        return given
