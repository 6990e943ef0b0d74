"""The file of a backup that is no more."""

from __future__ import annotations

import structlog

from app.backups.store import object_of
from app.blobs.blobs import Blobs
from app.errors import Unavailable

log = structlog.get_logger("cairn.backups")


async def forget(blobs: Blobs, tenant_id: str, backup_id: str) -> None:
    """Delete the file of a backup whose row is gone; one that cannot be deleted now is left to the sweep of objects."""
    try:
        await blobs.delete(tenant_id, object_of(backup_id))
    except Unavailable:
        # Nobody can ask for it any more.
        log.warning("the file of a deleted backup stays for now", tenant_id=tenant_id, backup_id=backup_id)
