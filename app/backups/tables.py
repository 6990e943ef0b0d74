"""Backups: what each holds, and the manifest that says so."""

from __future__ import annotations

from sqlalchemy import ARRAY, BigInteger, CheckConstraint, Column, ForeignKeyConstraint, Index, LargeBinary, Table, Text

from app.db.columns import METADATA, exact, identity, moment, reference, tenant, words

# Its state is that of its job until there is a manifest: whoever writes the manifest ends the job with it. Its object
# lies in the object store as `backup-<id>`.
backups = Table(
    "backups",
    METADATA,
    tenant(),
    identity(),
    words("label"),
    # Null: all of them.
    Column("sections", ARRAY(Text)),
    # Whether the bytes of artifacts are in the file, or only their names.
    Column("artifacts", Text, nullable=False),
    # Public keys of age; whoever has the secret key of one of them can read the file, and this service cannot.
    Column("recipients", ARRAY(Text)),
    reference("job_id", required=True),
    # Byte for byte as it stands at the end of the file, so that its signature holds.
    exact("manifest"),
    Column("size_bytes", BigInteger),
    # SHA-256 of the file.
    Column("digest", LargeBinary),
    moment("created_at", default=True),
    moment("completed_at"),
    moment("verified_at"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
    CheckConstraint("artifacts IN ('bytes', 'references')", name="artifacts"),
    CheckConstraint("num_nulls(manifest, size_bytes, digest, completed_at) IN (0, 4)", name="completed"),
    CheckConstraint("digest IS NULL OR octet_length(digest) = 32", name="digest_is_sha256"),
    Index("ix_backups_created_at", "tenant_id", "created_at", "id"),
)
