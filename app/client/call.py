"""One call to the service as a value: what to send, and how to read what comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

from app.client.errors import UnreadableAnswerError, error_of
from app.client.exact import Json, dump, elements, instant, members
from app.client.record import Record
from app.client.reply import Reply

T = TypeVar("T")
R = TypeVar("R", bound=Record)

JSON: Final = "application/json"
READS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request not yet sent. `read` turns a 2xx answer into the result; statuses in `also` are no errors either.

    The answer may take `wait_seconds` longer than others. A write that is `repeatable` has its effect once by itself,
    so it carries no Idempotency-Key.
    """

    method: str
    path: str
    read: Callable[[Reply], T]
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    also: frozenset[int] = frozenset()
    cursor_name: str = "cursor"
    wait_seconds: float = 0
    repeatable: bool = False
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def target(self) -> str:
        """Path and query as they go on the wire."""
        return f"{self.path}?{urlencode(self.query, quote_via=quote)}" if self.query else self.path

    def result(self, reply: Reply) -> T:
        """Read an answer, or raise the error that it is."""
        if not 200 <= reply.status < 300 and reply.status not in self.also:
            raise error_of(reply)
        try:
            return self.read(reply)
        except (ValueError, KeyError, RecursionError) as error:
            raise UnreadableAnswerError(
                "unreadable_answer", reply.status, f"{self.method} {self.path} answered something unexpected: {error}"
            ) from error

    def at_cursor(self, cursor: str) -> Call[T]:
        """The same call for the page that a cursor leads to."""
        kept = tuple(pair for pair in self.query if pair[0] != self.cursor_name)
        return replace(self, query=(*kept, (self.cursor_name, cursor)))


@dataclass(frozen=True)
class Page(Generic[R]):
    """One page of a list; `total` only when it was asked for with `count="exact"`."""

    items: list[R]
    next_cursor: str | None
    total: int | None
    reply: Reply


def path(*segments: str) -> str:
    """A path below `/v1` from raw segments, each percent-encoded whole, `.` and `..` too: an id may hold anything."""
    return "/v1/" + "/".join(_segment(raw) for raw in segments)


def _segment(raw: str) -> str:
    return quote(raw, safe="") if raw not in {".", ".."} else "%2E" * len(raw)


def query(filters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Filters as query parameters: lists are repeated, `include` is joined by commas, None is left out."""
    pairs: list[tuple[str, str]] = []
    for name, given in filters.items():
        if name == "include":
            pairs += [(name, ",".join(given))] if given else []
        elif isinstance(given, Sequence) and not isinstance(given, str):
            pairs += [(name, _text(one)) for one in given]
        elif given is not None:
            pairs.append((name, _text(given)))
    return tuple(pairs)


def _text(given: Any) -> str:
    match given:
        case bool():
            return "true" if given else "false"
        case datetime():
            return instant(given)
        case Mapping():
            return dump(given).decode()
        case Decimal():
            return f"{given:f}"
        case _:
            return str(given)


def one(kind: type[R]) -> Callable[[Reply], R]:
    """Read an answer that is one record."""
    return lambda reply: kind(reply.body, reply)


def page_of(kind: type[R]) -> Callable[[Reply], Page[R]]:
    """Read an answer that is a page of records."""

    def read(reply: Reply) -> Page[R]:
        envelope = Record(reply.body)
        items = [kind(element) for element in elements(envelope.raw("items").data)]
        return Page(items, envelope.get("next_cursor"), envelope.get("total"), reply)

    return read


class Items(list[R]):
    """All items of an answer, and the answer itself."""

    def __init__(self, items: Iterable[R], reply: Reply) -> None:
        super().__init__(items)
        self.reply = reply


def items_of(kind: type[R]) -> Callable[[Reply], Items[R]]:
    """Read an answer that is all items of a many-at-once write."""
    return lambda reply: Items([kind(element) for element in elements(members(reply.body)["items"])], reply)


def exact(reply: Reply) -> Json:
    """Read an answer whose whole body is one verbatim value."""
    return Json(reply.body)


def nothing(_: Reply) -> None:
    """Read an answer that has nothing to say."""
