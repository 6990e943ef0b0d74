"""Cuts what a collection calls secret from the documents that a restore has written."""

from __future__ import annotations

import json

import asyncpg

from app.db.ids import new_id
from app.db.shape import instant_sql
from app.documents.collection_store import CUT_KIND, Cut

# Until the job has cut them, every read does. Where nothing is secret there is nothing to cut, whatever the file says.
UNCUT = (
    "UPDATE document_collections AS c SET uncut = c.secret_paths <> '{}'"
    " WHERE c.tenant_id = $1 AND (c.uncut OR c.secret_paths <> '{}')"
    f" RETURNING c.name, c.secret_paths, {instant_sql('c.created_at')} AS created_at"
)
JOB = "INSERT INTO jobs (tenant_id, id, kind, arguments) VALUES ($1, $2, $3, $4)"


async def cut_later(connection: asyncpg.Connection, tenant_id: str) -> None:
    """Let every read cut the documents of the tenant, and a job do it for good: their rules may be of a later time than
    the file, or the file a forged one. It looks at what webhooks were told of them, too.
    """
    for found in await connection.fetch(UNCUT, tenant_id):
        if found["secret_paths"]:
            cut = Cut(tenant_id, found["name"], tuple(found["secret_paths"]), found["created_at"])
            await connection.execute(JOB, tenant_id, new_id("job"), CUT_KIND, json.dumps(cut.arguments()).encode())
