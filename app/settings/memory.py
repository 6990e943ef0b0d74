"""How memory is embedded, indexed and searched."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from app.settings.group import Group


class EmbedderSettings(Group):
    """The service that makes embeddings of texts; without one they come with the requests."""

    url: str | None = Field(
        None,
        description="An endpoint like OpenAI's, up to but without /embeddings, such as https://api.example.com/v1; it"
        " is asked for the model of each space.",
    )
    api_key: SecretStr | None = Field(None, description="Sent as Authorization: Bearer.")
    send_dimensions: bool = Field(
        False,
        description="Ask for as many dimensions as the space has; only where the endpoint documents it, for models that"
        " can give fewer.",
    )
    batch_max: int = Field(64, ge=1, le=2048, description="Texts in one request to it.")
    attempt_seconds: float = Field(10, gt=0, le=300, description="Longest time of one request to it.")
    wait_seconds: float = Field(
        20, gt=0, le=600, description="Longest wait of a caller for embeddings, repeats included; then 503."
    )
    attempts_max: int = Field(4, ge=1, le=10, description="How often a request to it is tried.")
    in_flight_max: int = Field(4, ge=1, le=64, description="Requests to it at a time, for each process.")
    cache_seconds: float = Field(
        604_800, ge=0, le=31_536_000, description="How long an embedding is kept in the cache; 0: not at all."
    )

    @field_validator("url")
    @classmethod
    def is_plain(cls, url: str | None) -> str | None:
        """Refuse what leads nowhere, before the first request does."""
        if url is not None:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
                raise ValueError("must be an http or https URL without a user name; the key is a setting of its own")
            if parts.query or parts.fragment:
                raise ValueError("must end before any ? or #; /embeddings is added to it")
        return url


class MemorySettings(Group):
    """How memory is indexed and searched."""

    content_bytes_max: int = Field(
        1_000_000,
        ge=1024,
        le=1_000_000,
        description="Largest content, in bytes; of very many words the first are found.",
    )
    index_rows_min: int = Field(
        5000,
        ge=0,
        le=10_000_000,
        description="From so many vectors on a space has an index; fewer are compared exactly.",
    )
    index_look_seconds: float = Field(
        5, gt=0, le=3600, description="How often spaces are looked for whose index is missing or broken."
    )
    index_memory_mib: int = Field(256, ge=16, le=65_536, description="maintenance_work_mem of an index build, in MiB.")
    index_workers: int = Field(
        0,
        ge=0,
        le=64,
        description="Parallel workers of an index build; with any, PostgreSQL holds that memory in /dev/shm, which a"
        " container must have.",
    )
    exact_rows_max: int = Field(
        4000, ge=0, le=1_000_000, description="A search whose filter matches at most so many vectors compares them all."
    )
    search_breadth: int = Field(100, ge=10, le=1000, description="hnsw.ef_search: how many neighbours a scan looks at.")
    scan_rows_max: int = Field(
        40_000,
        ge=1000,
        le=10_000_000,
        description="hnsw.max_scan_tuples: then a filtered search turns to comparing all.",
    )
    text_rows_max: int = Field(
        10_000,
        ge=1000,
        le=1_000_000,
        description="A search by words ranks at most so many matches; where more match, its answer is not exact.",
    )
    reembed_batch: int = Field(200, ge=1, le=2000, description="Items that one step of a re-embedding takes.")
