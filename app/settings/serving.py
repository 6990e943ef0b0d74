"""How the API is served, to whom, and what the process tells of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from app.settings.group import MIB, Group


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
        description="Largest body of raw bytes (an attachment, an artifact, a context), in bytes.",
    )
    uploads_folder: Path | None = Field(
        None,
        description="Where raw bytes beyond 1 MiB wait until they are whole: a disk with room for as many as come at"
        " once, of this machine. Default: the system's temporary folder.",
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


class LogSettings(Group):
    """What the process writes to standard error."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Lowest level that is written.")
    format: Literal["json", "console"] = Field("json", description="`json` for machines, `console` for people.")


class TracingSettings(Group):
    """OpenTelemetry traces, sent only when an endpoint is given."""

    endpoint: str | None = Field(None, description="OTLP over HTTP, such as a collector's /v1/traces.")
    sample_ratio: float = Field(1.0, ge=0, le=1, description="Share of requests that are traced.")
