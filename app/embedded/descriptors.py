"""File descriptors that a forked child must not keep, or a lock would outlive its owner."""

import os

_private: set[int] = set()


def keep_private(descriptor: int) -> int:
    """Promises that a child forked from this process closes the descriptor at once; answers the descriptor."""
    _private.add(descriptor)
    return descriptor


def close_private(descriptor: int) -> None:
    """Closes a descriptor that was kept private."""
    _private.discard(descriptor)
    os.close(descriptor)


def _close_all_in_child() -> None:
    for descriptor in _private:
        os.close(descriptor)
    _private.clear()


os.register_at_fork(after_in_child=_close_all_in_child)
