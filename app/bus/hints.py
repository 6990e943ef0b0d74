"""Hints: "look again at this", told to every process after a commit. They carry a key and nothing of what was written.

A hint may come late, twice, or never: whoever waits for one also looks by itself now and then (see `watcher.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Key(NamedTuple):
    """What moved: a kind of thing, its tenant, and which one: its number, or another short name such as an agent's."""

    kind: str
    tenant_id: str
    name: str


Heard = Callable[[Key | None], None]
"""Called with each key that is published; with None where some may have been missed. It never waits, nor raises."""


class Hints(Protocol):
    """Tells keys to every process, the own one first and at once."""

    def listen(self, heard: Heard) -> None:
        """Say who is called; once, before `open`."""

    async def open(self) -> None:
        """Begin to hear and to tell."""

    def publish(self, *keys: Key) -> None:
        """Tell that these moved, after the commit that moved them. Never waits, never raises, may be lost."""

    async def close(self) -> None:
        """End, within about a second."""


def each(*listeners: Heard) -> Heard:
    """Who tells several what it hears, in their order."""

    def heard(key: Key | None) -> None:
        for listener in listeners:
            listener(key)

    return heard


def nobody(_key: Key | None) -> None:
    """Hears nothing: who is called until `listen` says somebody."""


class EmbeddedHints:
    """Hints of a process that stands alone: heard where they are told."""

    def __init__(self) -> None:
        self._heard: Heard = nobody

    def listen(self, heard: Heard) -> None:
        """Say who is called."""
        self._heard = heard

    async def open(self) -> None:
        """Nothing is to be opened."""

    def publish(self, *keys: Key) -> None:
        """Tell the own process."""
        for key in keys:
            self._heard(key)

    async def close(self) -> None:
        """Nothing is to be closed."""
