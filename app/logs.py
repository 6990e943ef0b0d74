"""What the process writes to standard error: one JSON object a line, or coloured lines for people."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from app.settings import LogSettings

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
]
QUIET = ("uvicorn.error", "uvicorn.asgi", "httpx", "httpcore", "alembic")
# What these say below a warning, such as that a list of fonts was made, is of use to nobody here.
TALKATIVE = ("matplotlib",)


class _Handler(logging.StreamHandler[Any]):
    """The one handler of ours, so that a second call finds it again; it writes to what standard error is now."""

    @property
    def stream(self) -> Any:
        """Standard error."""
        return sys.stderr

    @stream.setter
    def stream(self, _stream: Any) -> None:
        """Nothing else can be chosen."""


def configure_logs(settings: LogSettings, *, quiet_servers: bool = False) -> None:
    """Send the logs of this process, those of its libraries too, through one formatter.

    A second call replaces the first. `quiet_servers` keeps the life-cycle lines of the HTTP server away.
    """
    structlog.configure(
        processors=[
            *_SHARED,
            structlog.processors.StackInfoRenderer(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.level)),
        cache_logger_on_first_use=False,
    )
    handler = _Handler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderer(settings)],
        )
    )
    root = logging.getLogger()
    for earlier in [known for known in root.handlers if isinstance(known, _Handler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(settings.level)
    for name in (*TALKATIVE, *(QUIET if quiet_servers else ())):
        logging.getLogger(name).setLevel(logging.WARNING)


def _renderer(settings: LogSettings) -> list[Any]:
    if settings.format == "console":
        # Not with the variables of each frame, as its own is: those hold payloads, and what callers send in confidence.
        plainly = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plainly)]
    return [
        structlog.processors.ExceptionRenderer(),
        structlog.processors.EventRenamer("message"),
        structlog.processors.JSONRenderer(),
    ]
