"""B23: every named statement is prepared on the migrated schema, with and without its Idempotency-Key."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain, combinations, product
from types import ModuleType
from typing import Any

import asyncpg

import app
from app.db.page import Listing
from app.db.shape import Shape
from app.db.sql import Statement
from app.http.including import Including
from app.memory.partitions import METRICS, creation
from app.memory.search_sql import NARROWING, Form

# The spaces of memory whose partitions statements name, with their dimensions: the index holds half of the second's.
SPACES = {1: 3, 2: 2500, 3: 3}


def modules() -> list[ModuleType]:
    """Every module of the service."""
    names = [found.name for found in pkgutil.walk_packages(app.__path__, "app.")]
    return [importlib.import_module(name) for name in names if name != "app.cli" and not name.startswith("app.client")]


def statements() -> Iterator[tuple[str, Statement]]:
    """Every statement, with a name to find it by: written in place, loaded, listed, or built for some columns."""
    for module in modules():
        for name, value in vars(module).items():
            for part in value.values() if isinstance(value, dict) else (value,):
                if isinstance(part, Statement):
                    yield f"{module.__name__}.{name} {part.name}", part
                elif isinstance(part, Listing):
                    yield from ((f"{module.__name__}.{name} {words}", found) for words, found in listed(part))
                elif isinstance(part, Including):
                    yield from ((f"{module.__name__}.{name}", found) for found in included(part))
            if inspect.isroutine(inspect.unwrap(value)) if callable(value) else False:
                yield from ((f"{module.__name__}.{name}", found) for found in built(module, value))


def listed(listing: Listing) -> Iterator[tuple[str, Statement]]:
    """A listing under each filter alone and all together, in each order, at each place."""
    every = frozenset(listing.filters)
    for given in {frozenset[str](), every, *(frozenset({name}) for name in every)}:
        for sort in listing.sorts:
            for order in ("asc", "desc"):
                for place in ("start", "key", *(("null",) if listing.sorts[sort].nullable else ())):
                    include = listing.shape.verbatim if given == every else frozenset[str]()
                    yield f"{sort} {order} {place}", listing._statement(sort, order, given, include, place, 51)
        yield "total", Statement(f"SELECT count(*) AS total FROM {listing.source} WHERE {listing.where(given)}")


def included(including: Including) -> Iterator[Statement]:
    """The payloads of a resource, each alone and all together."""
    for names in {including.shape.verbatim, *(frozenset({name}) for name in including.shape.verbatim)}:
        if names:
            yield including._statement(names)


# What statements are built for, by the name of the parameter.
VALUES: dict[str, tuple[Any, ...]] = {
    "targets": ((1,), (1, 2)), "others": ((), (3,)), "active": (1,), "many": (True, False), "embedding": (True, False),
    "contains": (True, False), "among": (0, 1, 2), "many_ways": (True, False),
}  # fmt: skip


def searches() -> Iterator[Form]:
    """A search of each space by each metric, in each mode, of everything and of a part."""
    ways = ((True, False), (False, True), (True, True))
    narrowings = (frozenset[str](), frozenset(NARROWING))
    for (number, dimensions), metric, way, narrowed in product(SPACES.items(), METRICS, ways, narrowings):
        yield Form(number, dimensions, metric, *way, 64, 100, 4000, 10_000, narrowed, explain=True)


def built(module: ModuleType, function: Any) -> Iterator[Statement]:
    """What a function builds that gives a statement for a set of columns."""
    if not hasattr(function, "cache_info") or function.__module__ != module.__name__:
        return
    hints = typing.get_type_hints(function.__wrapped__)
    returned = hints.pop("return", None)
    if returned is Listing:
        for given in product(*(VALUES[name] for name in hints)):
            yield from (found for _, found in listed(function(**dict(zip(hints, given, strict=True)))))
    if returned is not Statement:
        return
    shapes = [value for value in vars(module).values() if isinstance(value, Shape)]
    verbatim = frozenset(chain.from_iterable(shape.verbatim for shape in shapes))
    if list(hints) == ["include"]:
        # Shapes of one module may differ in their payloads: what a shape lacks is left out by it.
        yield function(frozenset())
        yield function(verbatim)
    elif list(hints) == ["limit", "of_agent"]:
        yield from (function(1, of_agent) for of_agent in (True, False))
    elif set(hints) <= set(VALUES):
        for given in product(*(VALUES[name] for name in hints)):
            yield function(**dict(zip(hints, given, strict=True)))
    elif list(hints) == ["form"]:
        yield from map(function, searches())
    elif list(hints) == ["names"] and not any(isinstance(value, Listing) for value in vars(module).values()):
        fields = [*getattr(module, "FIELDS", {}), *getattr(module, "RESULTS", {}), *getattr(module, "OUTCOME", {})]
        for names in chain(combinations(fields, 1), [tuple(fields)]):
            yield function(frozenset(names))
    else:
        yield from _filtered(module, function, hints)


def _filtered(module: ModuleType, function: Any, hints: dict[str, Any]) -> Iterator[Statement]:
    """What is built for a set of filters of the module's listing."""
    listings = [value for value in vars(module).values() if isinstance(value, Listing)]
    assert len(hints) == 1, f"{function.__qualname__}: say here how to build it"
    assert listings, f"{function.__qualname__}: say here how to build it"
    every = frozenset(listings[0].filters)
    for given in (frozenset(), every, *(frozenset({name}) for name in sorted(every))):
        yield function(given)


async def test_b23_every_statement_is_prepared_on_the_migrated_schema(clone: Callable[[], Awaitable[str]]) -> None:
    connection = await asyncpg.connect(await clone(), statement_cache_size=0)
    for number, dimensions in SPACES.items():
        for sql in creation(number, dimensions):
            await connection.execute(sql)
    prepared: set[str] = set()
    try:
        for name, statement in statements():
            texts = [statement.text]
            if "answer AS (" in statement.source:
                texts = [statement.answering.text, statement.answering_under(key=True, attempt=True, lease=True).text]
            for text in texts:
                if text in prepared:
                    continue
                prepared.add(text)
                try:
                    await connection.prepare(text)
                except asyncpg.PostgresError as error:
                    raise AssertionError(f"{name}: {error}\n{text}") from error
    finally:
        await connection.close()
    assert len(prepared) > 300
