"""Loading code without looking for garbage in it: what is loaded stays, and there is much of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Collects nothing while the block imports, and never looks through what it has loaded, at the end neither."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
