"""What `cairn doctor` finds of memory: the indexes of its spaces, and the service that makes embeddings."""

from __future__ import annotations

import asyncpg

from app.commands.finding import LOOK_SECONDS, Finding
from app.errors import AppError
from app.memory.partitions import table_of
from app.settings import EmbedderSettings, MemorySettings

# So many spaces without a whole index are counted, and so many models are asked for.
SPACES_MAX, MODELS_MAX = 200, 5
_WITHOUT_INDEX = """
SELECT s.tenant_id, s.name, s.number FROM memory_spaces AS s
JOIN pg_class AS p ON p.oid = to_regclass('memory_vectors_' || s.number)
LEFT JOIN pg_index AS i ON i.indexrelid = to_regclass('ix_memory_vectors_' || s.number || '_embedding')
WHERE i.indisvalid IS NOT TRUE ORDER BY pg_table_size(p.oid) DESC LIMIT $1"""
_MODELS = """
SELECT model, dimensions, bool_or(active) AS active FROM memory_spaces WHERE active OR filling
GROUP BY model, dimensions ORDER BY model, dimensions LIMIT $1"""


async def indexes_of_memory(connection: asyncpg.Connection, settings: MemorySettings) -> Finding:
    """Whether each space with more vectors than a search should compare one by one has its index.

    Fewer than `index_rows_min` are to have none.
    """
    if not await _are_there(connection):
        return Finding("memory", "ok", "There are no spaces.")
    rows_min = max(settings.exact_rows_max + 1, settings.index_rows_min)
    slow = []
    for space in await connection.fetch(_WITHOUT_INDEX, SPACES_MAX):
        counted = f"SELECT FROM {table_of(space['number'])} WHERE embedding IS NOT NULL LIMIT {rows_min}"
        if await connection.fetchval(f"SELECT count(*) FROM ({counted}) AS embedded") >= rows_min:
            slow.append(f"{space['name']} (tenant {space['tenant_id']})")
    if slow:
        return Finding(
            "memory", "note", f"No whole index: {', '.join(slow)}; each search there compares {rows_min} vectors or"
            " more. A `cairn worker`, or an API that runs the background work, builds it; where none comes, its log"
            " says `index not built` and why.",
        )  # fmt: skip
    return Finding("memory", "ok", "Every space that needs an index has it.")


async def embedding_service(connection: asyncpg.Connection, settings: EmbedderSettings) -> list[Finding]:
    """Whether the service gives an embedding of one word by each model that memory uses; none is kept."""
    if settings.url is None:
        detail = "Not configured (CAIRN_EMBEDDER__URL): embeddings come with the requests."
        return [Finding("embedder", "ok", detail)]
    models = await connection.fetch(_MODELS, MODELS_MAX) if await _are_there(connection) else []
    if not models:
        return [Finding("embedder", "note", f"{settings.url} was not asked: no space names a model yet.")]
    from app.embeddings.endpoint import PROBE, Endpoint  # noqa: PLC0415 - its client weighs much, and mostly there is none

    bounds = {"attempts_max": 1, "attempt_seconds": LOOK_SECONDS, "wait_seconds": LOOK_SECONDS}
    endpoint = Endpoint(settings.model_copy(update=bounds))
    found = []
    try:
        for row in models:
            model, dimensions = row["model"], row["dimensions"]
            try:
                [made] = await endpoint.ask(model, dimensions, [PROBE])
            except AppError as refusal:
                found.append(_without(f"{model} at {settings.url}: {refusal.detail}", active=row["active"]))
                continue
            if isinstance(made, bytes):
                told = f"{settings.url} answers {dimensions} numbers by {model}."
                found.append(Finding("embedder", "ok", told))
            else:
                found.append(_without(f"{model} at {settings.url}: {made.detail}", active=row["active"]))
    finally:
        await endpoint.close()
    return found


def _without(told: str, *, active: bool) -> Finding:
    """What it means that a model gives nothing: writes fail where its space is active, else they are only slower."""
    if active:
        return Finding("embedder", "wrong", told)
    return Finding("embedder", "note", f"{told} Its spaces are only written to: delete what is done with.")


async def _are_there(connection: asyncpg.Connection) -> bool:
    return await connection.fetchval("SELECT to_regclass('memory_spaces')") is not None
