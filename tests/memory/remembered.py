"""What is remembered, put into its tables at once: thousands of items for a test of the search for them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from app.db.sql import Statement
from app.db.vectors import packed
from app.http.service import Service
from app.memory.partitions import index_sql, table_of

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Item:
    """An item with its embedding in one space."""

    id: str
    embedding: Iterable[float] | None
    content: str = "nothing of note"
    metadata: dict[str, Any] = field(default_factory=dict)
    kind: str = "document"
    session_id: str | None = None
    expires_at: datetime | None = None


_ITEMS = Statement("""
INSERT INTO memory_items (tenant_id, kind, id, content, metadata, session_id, expires_at, digest)
SELECT :tenant_id, kind, id, content, metadata, session_id, expires_at, ''
FROM unnest(CAST(:kinds AS text[]), CAST(:ids AS text[]), CAST(:contents AS text[]), CAST(:metadata AS jsonb[]),
            CAST(:session_ids AS text[]), CAST(:expire AS timestamptz[]))
  AS g (kind, id, content, metadata, session_id, expires_at)""")
_VECTORS = """
INSERT INTO {table} (tenant_id, space_number, kind, id, embedding, lexemes, metadata, session_id, expires_at)
SELECT tenant_id, :number, kind, id, embedding, to_tsvector(CAST(CAST(:language AS text) AS regconfig), content),
       metadata, session_id, expires_at
FROM memory_items JOIN unnest(CAST(:kinds AS text[]), CAST(:ids AS text[]), CAST(:embeddings AS vector[]))
  AS g (kind, id, embedding) USING (kind, id) WHERE tenant_id = :tenant_id"""


async def remember(service: Service, client: httpx.AsyncClient, space: str, items: list[Item]) -> int:
    """Write the items with their vectors in one space of the client's tenant; the space's number."""
    tenant_id, database = client.headers["x-test-tenant"], service.ground.database
    named = Statement("SELECT number, language FROM memory_spaces WHERE tenant_id = :tenant_id AND name = :name")
    found = await database.row(named, tenant_id=tenant_id, name=space)
    assert found is not None
    those = {"tenant_id": tenant_id, "kinds": [item.kind for item in items], "ids": [item.id for item in items]}
    await database.rows(
        _ITEMS,
        contents=[item.content for item in items],
        metadata=[json.dumps(item.metadata).encode() for item in items],
        session_ids=[item.session_id for item in items],
        expire=[item.expires_at for item in items],
        **those,
    )
    await database.rows(
        Statement(_VECTORS.format(table=table_of(found["number"]))),
        number=found["number"],
        language=found["language"],
        embeddings=[None if item.embedding is None else packed(item.embedding) for item in items],
        **those,
    )
    return int(found["number"])


async def build(service: Service, number: int, dimensions: int, metric: str = "cosine") -> None:
    """Build the index of a space's nearest neighbours."""
    await service.ground.database.execute(index_sql(number, dimensions, metric))
    await service.ground.database.execute(f"ANALYZE {table_of(number)}")


def cosine(vectors: Vectors, query: Vectors) -> NDArray[np.float64]:
    """1 - cosine distance of each to the query."""
    one, other = vectors.astype(np.float64), query.astype(np.float64)
    lengths: NDArray[np.float64] = np.linalg.norm(one, axis=1) * np.linalg.norm(other)
    return np.asarray(one @ other / lengths)
