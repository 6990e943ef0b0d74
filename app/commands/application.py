"""The application as a server process loads it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.process import BaseProcess

from app.commands.loading import loading

with loading():
    from app.http.service import Service
    from app.main import create_app


def application() -> Service:
    """The service of the environment's settings; it ends when the process that started this one does."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True, name="end with the parent").start()
    return create_app()


def _end_after(parent: BaseProcess) -> None:
    """Wait for the parent's end, however it comes, and end in order; nobody would stop this process otherwise."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
