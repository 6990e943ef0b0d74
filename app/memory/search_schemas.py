"""A search of memory, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from app.http.fields import Body, Id, JsonObject, Text
from app.http.verbatim import STRINGS
from app.memory.embedding import Embedding
from app.memory.item_schemas import Kind

TOP_K_MAX = 1000
# Each value is looked up by itself, and compared with every row that waits to be put into the index: thousands of them
# would take seconds.
FILTER_VALUES_MAX = 256
Mode = Literal["vector", "text", "hybrid"]


def _few_values(value: JsonObject) -> JsonObject:
    if STRINGS.sub(b"", value).count(b",") >= FILTER_VALUES_MAX:
        raise ValueError(f"must have at most {FILTER_VALUES_MAX} values")
    return value


class MemorySearch(Body):
    """What to look for, where, and what it must be besides. At least one of `query` and `embedding` is given."""

    query: Annotated[Text, Field(max_length=10_000)] | None = Field(
        None,
        description='Words to look for, or what is embedded. `"a phrase"`, `or` and `-without` mean what they do in a'
        " web search.",
        examples=["what does the dog eat"],
    )
    embedding: Embedding | None = None
    space: Id | None = Field(None, description="Default: the active one.")
    kind: Kind | None = None
    filter: Annotated[JsonObject, AfterValidator(_few_values)] | None = Field(
        None,
        description=f"What `metadata` must contain: at most {FILTER_VALUES_MAX} values.",
        examples=[{"topic": "diet"}],
    )
    session_id: Id | None = None
    invocation_id: Id | None = None
    top_k: Annotated[int, Field(ge=1, le=TOP_K_MAX)] = 10
    mode: Mode | None = Field(
        None,
        description="Default: hybrid where `query` and an embedding are there, be it made by the embedding service;"
        " else what is given.",
    )
    explain: bool = Field(False, description="Say of each item how it was found.")


class FoundByVector(BaseModel):
    """Its place and score among the nearest, and whether the index proposed it or everything was compared."""

    rank: int
    score: float
    by: Literal["index", "exact"]


class FoundByWords(BaseModel):
    """Its place and score among what has the words, all of them or any."""

    rank: int
    score: float
    words: Literal["all", "any"]


class MemoryExplanation(BaseModel):
    """How an item was found, by each way that was gone; null where not by that one."""

    vector: FoundByVector | None = None
    text: FoundByWords | None = None


class MemoryHit(BaseModel):
    """An item that was found. `content` is null where those before it are 16 MiB together: read it by its id."""

    id: str
    kind: Kind
    score: float = Field(
        description="Vector: 1 - cosine distance, minus the distance (l2), or the inner product. Text: ts_rank_cd."
        " Hybrid: the sum of 1 / (60 + rank) of both."
    )
    content: str | None
    metadata: dict[str, Any]
    session_id: str | None
    invocation_id: str | None
    created_at: datetime
    explain: MemoryExplanation | None = None


class MemoryFound(BaseModel):
    """What was found, the best first."""

    space: str
    mode: Mode
    exact: bool = Field(
        description="Whether everything that matches was compared; else the nearest are those that an index proposed,"
        " or only a part of very many matches was ranked."
    )
    items: list[MemoryHit]
