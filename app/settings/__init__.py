"""Every setting of the service: name, default, bound and meaning, read from `CAIRN_…` variables and from `.env`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.settings.background import BackgroundSettings, QueueSettings
from app.settings.blobs import BlobSettings
from app.settings.keeping import BackupSettings, OffboardingSettings, RetentionSettings, SigningSettings
from app.settings.memory import EmbedderSettings, MemorySettings
from app.settings.servers import DatabaseSettings, NatsSettings, RedisSettings
from app.settings.serving import AuthSettings, HttpSettings, LogSettings, TracingSettings
from app.settings.webhooks import WebhookSettings

__all__ = [
    "AuthSettings",
    "BackgroundSettings",
    "BackupSettings",
    "BlobSettings",
    "DatabaseSettings",
    "EmbedderSettings",
    "HttpSettings",
    "LogSettings",
    "MemorySettings",
    "NatsSettings",
    "OffboardingSettings",
    "QueueSettings",
    "RedisSettings",
    "RetentionSettings",
    "Settings",
    "SigningSettings",
    "TracingSettings",
    "WebhookSettings",
]


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
    blobs: BlobSettings = Field(default_factory=BlobSettings)
    memory: MemorySettings = Field(default_factory=MemorySettings)
    embedder: EmbedderSettings = Field(default_factory=EmbedderSettings)
    backups: BackupSettings = Field(default_factory=BackupSettings)
    retention: RetentionSettings = Field(default_factory=RetentionSettings)
    offboarding: OffboardingSettings = Field(default_factory=OffboardingSettings)
    signing: SigningSettings = Field(default_factory=SigningSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    tracing: TracingSettings = Field(default_factory=TracingSettings)
    var_folder: Path = Field(Path("var"), description="Where `cairn dev` keeps the data of its embedded servers.")
