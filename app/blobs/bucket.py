"""Objects in a bucket of an S3-compatible service: `<prefix>/<tenant>/<name>`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.store import S3Store

from app.blobs.blobs import Found
from app.blobs.objects import Objects
from app.settings import BlobSettings

if TYPE_CHECKING:
    from obstore.store import S3Config

# Nothing is ever put there: a listing of it shows whether the bucket is there and may be listed.
NOWHERE = "-"
TOLD = "The object store does not answer; try again. The operator looks at its bucket and keys: CAIRN_BLOBS__BUCKET …"


class Bucket(Objects):
    """A bucket. What was being written when a process was killed is for a lifecycle rule of the bucket to take away."""

    def __init__(self, settings: BlobSettings) -> None:
        super().__init__(lambda: _store(settings), settings.wait_seconds, TOLD)

    async def names(self, tenant_id: str | None = None) -> AsyncIterator[Found]:
        """Every object, or those of one tenant, in no order."""
        listed = obstore.list(self.store, prefix=tenant_id)
        while True:
            with self._answering():
                async with asyncio.timeout(self.wait_seconds):
                    page = await anext(listed, None)
            if page is None:
                return
            for one in page:
                owner, slash, name = one["path"].partition("/")
                # A prefix ends where a name does, but that is the store's word.
                if slash and tenant_id in (None, owner):
                    yield Found(owner, name, one["size"], one["last_modified"])

    async def leave(self, tenant_id: str) -> None:
        """There is nothing but the objects."""

    async def check(self, seconds: float) -> str:
        """`bucket`, where it can be listed. Raises `Unavailable`."""
        with self._answering():
            async with asyncio.timeout(seconds):
                await anext(obstore.list(self.store, prefix=NOWHERE), None)
        return "bucket"


def _store(settings: BlobSettings) -> S3Store:
    config: S3Config = {"region": settings.region}
    if settings.endpoint is not None:
        config["endpoint"] = settings.endpoint
    if settings.access_key_id is not None and settings.secret_access_key is not None:
        config["access_key_id"] = settings.access_key_id.get_secret_value()
        config["secret_access_key"] = settings.secret_access_key.get_secret_value()
    wait = timedelta(seconds=settings.wait_seconds)
    return S3Store(
        settings.bucket,
        prefix=settings.prefix.strip("/") or None,
        config=config,
        client_options={"allow_http": settings.allow_http, "timeout": wait, "connect_timeout": timedelta(seconds=5)},
        retry_config={"retry_timeout": wait, "max_retries": 5},
    )
