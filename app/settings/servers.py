"""Where PostgreSQL, Redis and NATS are, and how much of each this process takes."""

from __future__ import annotations

from pydantic import Field, SecretStr

from app.settings.group import MIB, Group


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
