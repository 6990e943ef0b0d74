"""Connections that end once an answer is longer than any answer need be, whatever it consists of."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError

# Answers that only announce the answer; a handful is what servers send.
INTERIM_MAX = 16
# Data is parsed in such pieces, so that little has been made of it when a bound is seen.
PIECE_BYTES = 8192


def bound_answers(connector: aiohttp.TCPConnector, bytes_max: int) -> None:
    """Let the connections of a connector read at most so many bytes of each answer, its head and framing among them.

    The client itself bounds the lines of a head, but neither what comes before it nor what frames a body: interim
    answers, chunk extensions, trailers and empty blocks of gzip would be read for as long as they come.
    """
    factory: Any = partial(_Bounded, asyncio.get_running_loop(), bytes_max)
    connector._factory = factory


class _Bounded(ResponseHandler):
    """One connection, with what may still be read of the present answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bytes_max: int) -> None:
        super().__init__(loop)
        self._bytes_max = self._bytes_left = bytes_max
        self._heads_left = 1 + INTERIM_MAX

    def set_response_params(self, **given: Any) -> None:
        """Begins the next answer."""
        self._bytes_left, self._heads_left = self._bytes_max, 1 + INTERIM_MAX
        super().set_response_params(**given)

    def data_received(self, data: bytes) -> None:
        """Hands on what is within the bounds, and ends the connection at the first byte that is not."""
        for begin in range(0, max(len(data), 1), PIECE_BYTES):
            piece = data[begin : begin + PIECE_BYTES]
            left, self._bytes_left = self._bytes_left, self._bytes_left - len(piece)
            super().data_received(piece[:left])
            if self.transport is None or self.transport.is_closing():
                return
            if self._is_over():
                self.set_exception(HttpProcessingError())
                self.transport.abort()
                return

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Counts the heads."""
        self._heads_left -= 1
        super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Tells a bound that was reached apart from an endpoint that went away."""
        super().set_exception(HttpProcessingError() if self._is_over() else exc, *cause)

    def _is_over(self) -> bool:
        return self._bytes_left < 0 or self._heads_left < 0
