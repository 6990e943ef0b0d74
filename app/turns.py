"""Work that keeps a processor busy for long: in a thread of its own, one piece at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from app.errors import Unavailable

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Turns:
    """One kind of such work. It never takes more than one core, nor the threads in which large bodies are read."""

    def __init__(self, name: str, waiting_max: int) -> None:
        self.name, self.waiting_max = name, waiting_max
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def take(self, work: Callable[Given, Result], /, *given: Given.args, **named: Given.kwargs) -> Result:
        """The result of the work. Raises `Unavailable` where `waiting_max` others wait, and what the work raises."""
        if self._waiting >= self.waiting_max:
            raise Unavailable(f"Too much other {self.name} waits for its turn; ask again in a moment.")
        self._waiting += 1
        try:
            return await asyncio.wrap_future(self._thread.submit(work, *given, **named))
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Let the thread end; what still waits is not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)
