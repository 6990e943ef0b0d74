"""Where the vectors of a space lie: its partition, made with it, and the index that finds its nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

# `hnsw` holds vectors of so many dimensions at full precision; beyond, at half of it, up to so many.
FULL_PRECISION_DIMENSIONS_MAX, DIMENSIONS_MAX = 2000, 4000
M, EF_CONSTRUCTION = 16, 200


@dataclass(frozen=True)
class Metric:
    """How near two vectors are: the operator between them, the class of its index, and the score it comes to."""

    operator: str
    operators: str
    # `{d}` is the distance by the operator; a greater score is nearer.
    score: str


METRICS = {
    "cosine": Metric("<=>", "cosine_ops", "1 - {d}"),
    "l2": Metric("<->", "l2_ops", "0 - {d}"),
    # The operator gives the negative product, so that less is nearer.
    "inner_product": Metric("<#>", "ip_ops", "0 - {d}"),
}


def table_of(number: int) -> str:
    """The partition of the space with this number."""
    return f"memory_vectors_{int(number)}"


def names_a_dropped_one(error: Exception) -> bool:
    """Whether a statement was refused because a partition in its text is not there any more."""
    return isinstance(error.__cause__, asyncpg.UndefinedTableError)


def creation(number: int, dimensions: int) -> list[str]:
    """The statements that make a space's partition and attach it, in the transaction that makes the space.

    Nobody waits for it but who makes another space: the table is new and empty, and others' partitions are not touched.
    """
    number, dimensions, table = int(number), int(dimensions), table_of(number)
    return [
        f"CREATE TABLE {table} (LIKE memory_vectors INCLUDING DEFAULTS INCLUDING STORAGE,"
        f" CONSTRAINT pk_{table} PRIMARY KEY (tenant_id, space_number, kind, id),"
        f" CONSTRAINT ck_{table}_space_number CHECK (space_number = {number}),"
        f" CONSTRAINT ck_{table}_dimensions CHECK (vector_dims(embedding) = {dimensions}))",
        f"CREATE INDEX ix_{table}_metadata ON {table} USING gin (metadata jsonb_path_ops)",
        f"CREATE INDEX ix_{table}_lexemes ON {table} USING gin (lexemes)",
        *(
            f"CREATE INDEX ix_{table}_{column} ON {table} ({column}) WHERE {column} IS NOT NULL"
            for column in ("session_id", "invocation_id")
        ),
        f"ALTER TABLE memory_vectors ATTACH PARTITION {table} FOR VALUES IN ({number})",
    ]


def index_name(number: int) -> str:
    """The index of the space's nearest neighbours."""
    return f"ix_{table_of(number)}_embedding"


def index_sql(number: int, dimensions: int, metric: str) -> str:
    """The statement that builds that index while others read and write; outside any transaction."""
    keyed, kind = indexed(dimensions, metric, "embedding"), index_type(dimensions)
    return (
        f"CREATE INDEX CONCURRENTLY {index_name(number)} ON {table_of(number)}"
        f" USING hnsw (({keyed}) {kind}_{METRICS[metric].operators})"
        f" WITH (m = {M}, ef_construction = {EF_CONSTRUCTION})"
    )


def index_type(dimensions: int) -> str:
    """The type of what the index holds: `vector`, or `halfvec` where that would be too large."""
    return "vector" if dimensions <= FULL_PRECISION_DIMENSIONS_MAX else "halfvec"


def indexed(dimensions: int, metric: str, vector: str) -> str:
    """A vector as the index holds it; only an order by exactly this is read from it.

    By cosine the length of a vector does not matter, and at half precision a short one would be zero, which the index
    leaves out: it holds the direction.
    """
    kind = index_type(dimensions)
    if metric == "cosine" and kind == "halfvec":
        vector = f"l2_normalize({vector})"
    return f"CAST({vector} AS {kind}({int(dimensions)}))"
