"""Documents and records, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, WrapValidator

from app.errors import InvalidInput
from app.http.fields import Body, Id, Instant, JsonObject, Text
from app.http.paging import IncludeQuery, ListQuery, PageOf
from app.http.problems import rejected
from app.memory.embedding import Embedding

ITEMS_MAX = 1000
Kind = Literal["document", "record"]
Content = Annotated[Text, Field(min_length=1)]


class ItemChange(Body):
    """The fields of an item to update. Content that changes without an embedding is embedded anew, or has none."""

    content: Content = Field(default_factory=str, examples=["Rex eats dry food twice a day."])
    metadata: JsonObject | None = Field(None, examples=[{"topic": "diet"}])
    session_id: Id | None = Field(None, examples=["ses_1"])
    invocation_id: Id | None = Field(None, examples=["inv_7"])
    expires_at: Instant | None = Field(None, description="From then on it is gone.")
    embedding: Embedding | None = Field(
        None, description="Unless given, the embedding service makes it, if there is one."
    )
    space: Id | None = Field(None, description="The space that `embedding` is of; default: the active one.")


class NewItem(ItemChange):
    """An item to remember; without an id the service makes one."""

    id: Id | None = Field(None, examples=["mem_1"])
    content: Content = Field(examples=["Rex eats dry food twice a day."])


def _tried(value: Any, validate: Callable[[Any], NewItem]) -> NewItem | InvalidInput:
    """The item, or what is wrong with it: each is answered by itself."""
    try:
        return validate(value)
    except ValidationError as error:
        return rejected(error)


class NewItems(Body):
    """Items to remember, each by itself: one that is refused keeps no other from being stored."""

    items: list[Annotated[NewItem, WrapValidator(_tried)]] = Field(min_length=1, max_length=ITEMS_MAX)


class ItemQuery(IncludeQuery):
    """What to show of an item: `include=embedding` its numbers in the active space, in single precision exactly."""


class ItemList(ListQuery):
    """Filters and sorts of the lists of documents and of records."""

    session_id: str | None = None
    invocation_id: str | None = None
    metadata: (
        Annotated[
            str,
            Field(
                max_length=8192,
                description="A JSON object that metadata contains.",
                json_schema_extra={"contentMediaType": "application/json"},
            ),
        ]
        | None
    ) = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    sort: Literal["created_at", "id"] | None = None


class Item(BaseModel):
    """Something remembered. `embedded` says whether it has an embedding in the active space; lists leave it out."""

    id: str
    kind: Kind
    content: str
    metadata: dict[str, Any]
    session_id: str | None
    invocation_id: str | None
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime
    embedded: bool | None = None
    embedding: list[float] | None = Field(None, description="Only where `include` names it.")


class Remembered(Item):
    """An item of a call, as it now is: 201 if it is new, 200 if it was there."""

    status: Literal[200, 201]


class Refused(BaseModel):
    """An item of a call that was not stored, with the problem: `code`, `detail`, `errors` and facts."""

    status: int
    type: str
    title: str
    detail: str
    code: str


class Answers(BaseModel):
    """What became of each item, in the order sent."""

    items: list[Remembered | Refused]


class ItemPage(PageOf[Item]):
    """A page of documents or records."""
