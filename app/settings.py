"""Every setting of the service: name, default, bound and meaning, read from `CAIRN_…` variables and from `.env`."""

from __future__ import annotations

import base64
import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

MIB = 1024 * 1024
HOST_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
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


class Group(BaseModel):
    """A named part of the settings tree; frozen, closed to names it does not know, and no error tells a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class DatabaseSettings(Group):
    """Where PostgreSQL is and how many connections this process may hold."""

    url: SecretStr = Field(
        SecretStr("postgresql://cairn:cairn@127.0.0.1:5432/cairn"), description="PostgreSQL 18 with pgvector."
    )
    direct_url: SecretStr | None = Field(
        None, description="The same database without a pooler between; migrations need it. Default: the URL above."
    )
    pool_min: int = Field(2, ge=0, le=1000, description="Connections kept open by each process.")
    pool_max: int = Field(
        10,
        ge=1,
        le=1000,
        description="Connections that each process may open; more than PostgreSQL can keep busy cost time.",
    )
    acquire_seconds: float = Field(5, gt=0, le=60, description="Longest wait for a free connection; then 503.")
    statement_seconds: float = Field(30, gt=0, le=3600, description="Longest time that one statement may run.")
    lock_seconds: float = Field(
        2, gt=0, le=60, description="Longest wait for a row lock, then 503; a migration's for a table, then a new try."
    )
    idle_transaction_seconds: float = Field(
        15, gt=0, le=3600, description="PostgreSQL ends a session that idles inside a transaction for longer."
    )
    statement_cache: bool = Field(
        True, description="Prepared statements are kept. Turn off behind PgBouncer in transaction mode."
    )
    session_settings: bool = Field(
        True,
        description="Time-outs are sent as start-up parameters. Turn off behind PgBouncer, and set them by role.",
    )
    migration_wait_seconds: float = Field(
        300, gt=0, le=3600, description="How long a migrator waits for another one to finish."
    )

    @property
    def driver_url(self) -> str:
        """The URL as the driver wants it, also where it is written as SQLAlchemy or others want it."""
        return _for_driver(self.url)

    @property
    def direct_driver_url(self) -> str:
        """The same without a pooler between."""
        return _for_driver(self.direct_url or self.url)


def _for_driver(url: SecretStr) -> str:
    scheme, colon, rest = url.get_secret_value().partition("://")
    return ("postgresql" if scheme in ("postgresql+asyncpg", "postgres") else scheme) + colon + rest


class RedisSettings(Group):
    """The cache; everything works without it."""

    url: SecretStr | None = Field(None, description="Redis 7 or Valkey 8. Empty: each process caches for itself alone.")
    key_prefix: str = Field(
        "cairn",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="First word of the keys; another one for each Cairn that shares a Redis.",
    )
    wait_seconds: float = Field(
        0.05, gt=0, le=5, description="Longest wait for Redis in a request; then it goes on without."
    )


class NatsSettings(Group):
    """The bus; everything works without it."""

    url: SecretStr | None = Field(
        None,
        description="NATS with JetStream; servers of a cluster are separated by commas. Empty: nothing is told outside"
        " of the process.",
    )
    subject_prefix: str = Field(
        "cairn",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="First word of the subjects of hints; another one for each Cairn that shares a NATS.",
    )
    stream_prefix: str = Field(
        "automation",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="First word of the subjects and streams of JetStream; another one for each Cairn that shares it.",
    )
    stream_replicas: int = Field(
        1, ge=1, le=5, description="Copies of each stream; 3 or 5 where NATS is a cluster, 1 where it is one server."
    )
    stream_bytes_max: int = Field(
        1024 * MIB, ge=MIB, le=1024 * 1024 * MIB, description="Largest size of each stream on disk, in bytes."
    )
    stream_age_seconds: int = Field(
        86_400, ge=60, le=31_536_000, description="Queued deliveries leave the stream after this; PostgreSQL has them."
    )
    dead_letter_age_seconds: int = Field(
        2_592_000, ge=60, le=31_536_000, description="How long the stream of dead letters keeps what nobody took."
    )
    duplicate_seconds: int = Field(
        120, ge=1, le=3600, description="Within this time a message that is published twice is stored once."
    )


class HttpSettings(Group):
    """Where the API listens and what it accepts."""

    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    workers: int = Field(1, ge=1, le=64, description="API processes of `cairn serve`.")
    body_bytes_max: int = Field(64 * MIB, ge=1024, le=1024 * MIB, description="Largest JSON body, in bytes.")
    upload_bytes_max: int = Field(
        1024 * MIB,
        ge=1024,
        le=64 * 1024 * MIB,
        description="Largest body of raw bytes (an attachment), in bytes.",
    )
    nesting_max: int = Field(512, ge=8, le=700, description="Deepest JSON nesting of one payload.")
    batch_operations_max: int = Field(1000, ge=1, le=10_000, description="Operations in one batch.")
    items_max: int = Field(1000, ge=1, le=10_000, description="Items in one call that takes several.")
    page_limit_default: int = Field(50, ge=1, le=1000, description="Items of a page when the caller names no limit.")
    page_limit_max: int = Field(1000, ge=1, le=10_000, description="Most items of a page.")
    receive_seconds: float = Field(30, gt=0, le=600, description="Longest silence while a body arrives; then 408.")
    version_seconds: float = Field(
        5,
        ge=0,
        le=60,
        description="How long a version is read from memory where its deletion is not heard; 0: never from memory.",
    )
    grace_seconds: int = Field(20, ge=1, le=600, description="Time that running requests get at shutdown.")
    keep_alive_seconds: int = Field(75, ge=1, le=3600, description="Idle time of a kept connection.")
    live_look_seconds: float = Field(
        1.0, gt=0, le=60, description="How often one statement looks for what all waiting readers wait for."
    )
    live_readers_max: int = Field(
        1000, ge=1, le=100_000, description="Readers that may wait in one process; beyond that 503."
    )
    live_heartbeat_seconds: float = Field(
        15, gt=0, le=600, description="Longest silence of an event stream; then a comment is sent."
    )
    live_stream_seconds: float = Field(
        900, gt=0, le=86_400, description="Longest life of an event stream; the client then resumes it by its last id."
    )
    access_log: bool = Field(False, description="One log line for each request, besides failures and slow ones.")
    slow_request_seconds: float = Field(1.0, gt=0, le=600, description="Requests that take longer are logged.")


class AuthSettings(Group):
    """Who may call."""

    mode: Literal["keys", "off"] = Field("keys", description="`off` makes every caller the operator: local use only.")
    allow_off_anywhere: bool = Field(False, description="Permit mode `off` on an address that is not loopback.")
    admin_key: SecretStr | None = Field(None, description="The operator's key; acts for the tenant in X-Tenant-Id.")
    cache_seconds: float = Field(
        1,
        ge=0,
        le=5,
        description="How long a key is trusted without asking PostgreSQL, where its revocation is not heard.",
    )


class BackgroundSettings(Group):
    """The jobs that run beside the API."""

    enabled: bool = Field(True, description="`cairn serve` runs the background jobs too.")
    sequencer_idle_seconds: float = Field(
        0.025, gt=0, le=5, description="Pause of the event sequencer when nothing waits."
    )
    job_idle_seconds: float = Field(1.0, gt=0, le=60, description="Pause of the job runner when nothing waits.")
    job_lease_seconds: float = Field(30, ge=1, le=3600, description="A job whose runner is silent for longer restarts.")
    housekeeping_lease_seconds: int = Field(
        15, ge=1, le=3600, description="The one process that keeps house is replaced when it is silent for longer."
    )


class QueueSettings(Group):
    """What becomes of submissions whose lease has lapsed."""

    lapse_seconds: float = Field(1.0, gt=0, le=60, description="How often lapsed leases are looked for.")
    backoff_first_seconds: float = Field(
        1.0, ge=0, le=3600, description="Longest pause after the first lapsed attempt; it doubles with each."
    )
    backoff_longest_seconds: float = Field(
        300, ge=0, le=86_400, description="Longest pause between two attempts. Half of a pause is at random."
    )


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
    in_flight_max: int = Field(500, ge=1, le=10_000, description="Deliveries under way in one process.")
    attempt_seconds: float = Field(
        15, gt=0, le=300, description="Longest time of one attempt, from the look-up of the name to the answer's end."
    )
    schedule: str = Field(
        "5,300,1800,7200,18000,36000,50400,72000,86400",
        pattern=r"^\d{1,7}(\.\d{1,3})?(,\d{1,7}(\.\d{1,3})?){0,49}$",
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


class LogSettings(Group):
    """What the process writes to standard error."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Lowest level that is written.")
    format: Literal["json", "console"] = Field("json", description="`json` for machines, `console` for people.")


class TracingSettings(Group):
    """OpenTelemetry traces, sent only when an endpoint is given."""

    endpoint: str | None = Field(None, description="OTLP over HTTP, such as a collector's /v1/traces.")
    sample_ratio: float = Field(1.0, ge=0, le=1, description="Share of requests that are traced.")


class Settings(BaseSettings):
    """The whole tree. Build it once, in `app/main.py` or `app/cli.py`, and pass values down."""

    model_config = SettingsConfigDict(
        env_prefix="CAIRN_",
        env_nested_delimiter="__",
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    database: DatabaseSettings = Field(default_factory=DatabaseSettings)
    redis: RedisSettings = Field(default_factory=RedisSettings)
    nats: NatsSettings = Field(default_factory=NatsSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    auth: AuthSettings = Field(default_factory=AuthSettings)
    background: BackgroundSettings = Field(default_factory=BackgroundSettings)
    queue: QueueSettings = Field(default_factory=QueueSettings)
    webhooks: WebhookSettings = Field(default_factory=WebhookSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    tracing: TracingSettings = Field(default_factory=TracingSettings)
    var_folder: Path = Field(Path("var"), description="Where `cairn dev` keeps the data of its embedded servers.")
