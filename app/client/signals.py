"""Being told of signals on the event loop, any number of listeners at once."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_listeners: dict[signal.Signals, list[Callable[[], None]]] = {}
_previous: dict[signal.Signals, Any] = {}


@contextmanager
def told_of(signals: Sequence[signal.Signals], listener: Callable[[], None]) -> Iterator[None]:
    """Call the listener whenever one of the signals comes, in place of what would have happened otherwise.

    Only the main thread can be told; elsewhere, and where the loop has no signals, nothing changes.
    """
    loop = asyncio.get_running_loop()
    heard = [number for number in signals if _listen(loop, number, listener)]
    try:
        yield
    finally:
        for number in heard:
            _listeners[number].remove(listener)
            if not _listeners[number]:
                loop.remove_signal_handler(number)
                signal.signal(number, _previous.pop(number))


def _listen(loop: asyncio.AbstractEventLoop, number: signal.Signals, listener: Callable[[], None]) -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    if not _listeners.get(number):
        previous = signal.getsignal(number)
        try:
            loop.add_signal_handler(number, _tell, number)
        except NotImplementedError:
            return False
        _previous[number] = previous
    _listeners.setdefault(number, []).append(listener)
    return True


def _tell(number: signal.Signals) -> None:
    for listener in tuple(_listeners[number]):
        listener()
