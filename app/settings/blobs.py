"""Where artifacts and large contexts lie, and when what nobody refers to is collected."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from app.settings.group import MIB, Group


class BlobSettings(Group):
    """The object store: a folder, or a bucket of an S3-compatible service."""

    folder: Path = Field(
        Path("var/artifacts"),
        description="Where the objects lie, as <tenant>/<hash>; every API process and worker needs the same folder."
        " Unset, `cairn dev` has them beside its other data.",
    )
    bucket: str | None = Field(None, description="An S3 bucket, used instead of the folder.")
    prefix: str = Field("", description="What the names of the objects in the bucket begin with.")
    endpoint: str | None = Field(None, description="URL of an S3-compatible service. Default: that of AWS.")
    region: str = Field("us-east-1", description="The bucket's region.")
    access_key_id: SecretStr | None = Field(
        None, description="Default: what the environment or the machine's role gives."
    )
    secret_access_key: SecretStr | None = Field(None, description="Belongs to the access key.")
    allow_http: bool = Field(False, description="Permit an endpoint without TLS.")
    wait_seconds: float = Field(
        30, gt=0, le=600, description="Longest wait for one answer of the object store, its repeats included; then 503."
    )
    inline_bytes_max: int = Field(
        64 * 1024, ge=0, le=MIB, description="Contexts of up to so many bytes lie in PostgreSQL, larger ones here."
    )
    grace_seconds: float = Field(
        86_400, ge=1, le=31_536_000, description="An artifact that nothing refers to is collected after so long."
    )
    collect_seconds: float = Field(
        300, gt=0, le=86_400, description="How often artifacts are looked for that can be collected."
    )
