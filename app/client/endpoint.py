"""Writes each call once and serves it in every mode: now, awaited, or gathered into a batch.

A resource method only builds a `Call`. The decorators below hand that call to whatever mode its resource was made
for, and tell the type checker what comes back in each.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from app.client.batch import Pending, Recorder
from app.client.call import Call, Page
from app.client.record import Record
from app.client.transport import AsyncListing, AsyncTransport, Listing, SyncTransport

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=Record)
M = TypeVar("M")


class Resource(Generic[M]):
    """A group of calls in one mode."""

    def __init__(self, mode: M) -> None:
        self._mode = mode


class endpoint(Generic[P, T]):  # noqa: N801 - used as a decorator
    """A call that returns one result."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, resource: Resource[SyncTransport], owner: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, resource: Resource[AsyncTransport], owner: type[Any]) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, resource: Resource[Recorder], owner: type[Any]) -> Callable[P, Pending[T]]: ...
    @overload
    def __get__(self, resource: None, owner: type[Any]) -> endpoint[P, T]: ...
    def __get__(self, resource: Any, owner: type[Any]) -> Any:
        if resource is None:
            return self

        @functools.wraps(self._build)
        def perform(*args: P.args, **kwargs: P.kwargs) -> Any:
            return resource._mode.perform(self._build(resource, *args, **kwargs))

        return perform


class listing(Generic[P, R]):  # noqa: N801 - used as a decorator
    """A call that returns a list in pages."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[Page[R]]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, resource: Resource[SyncTransport], owner: type[Any]) -> Callable[P, Listing[R]]: ...
    @overload
    def __get__(self, resource: Resource[AsyncTransport], owner: type[Any]) -> Callable[P, AsyncListing[R]]: ...
    @overload
    def __get__(self, resource: Resource[Recorder], owner: type[Any]) -> Callable[P, Pending[Page[R]]]: ...
    @overload
    def __get__(self, resource: None, owner: type[Any]) -> listing[P, R]: ...
    def __get__(self, resource: Any, owner: type[Any]) -> Any:
        if resource is None:
            return self

        @functools.wraps(self._build)
        def start(*args: P.args, **kwargs: P.kwargs) -> Any:
            return resource._mode.listing(self._build(resource, *args, **kwargs))

        return start
