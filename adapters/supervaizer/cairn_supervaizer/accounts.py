"""The account of this process, which stored cases are given again: its key is stored nowhere."""

from __future__ import annotations

import functools
import inspect
import os
from contextvars import ContextVar
from typing import Any, Final

_VARIABLES: Final = {
    "workspace_id": "SUPERVAIZE_WORKSPACE_ID",
    "api_key": "SUPERVAIZE_API_KEY",
    "api_url": "SUPERVAIZE_API_URL",
}
_LAUNCHING: ContextVar[Any] = ContextVar("the account of the server that is being made", default=None)


def account_of_process(given: Any | None) -> Any | None:
    """The account that was given, else that of the server that is being made, else that of the environment."""
    from supervaizer.account import Account  # noqa: PLC0415 - loads much of the package

    account = given or _LAUNCHING.get()
    if account is not None:
        return account
    found = {name: os.environ.get(variable) for name, variable in _VARIABLES.items()}
    return Account(**found) if all(found.values()) else None


def remember_account(server_class: Any) -> None:
    """Let the constructor of a server, which reloads entities before anybody can ask it, tell its account."""
    original = server_class.__init__
    if hasattr(original, "__wrapped__"):
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        token = _LAUNCHING.set(signature.bind(self, *args, **kwargs).arguments.get("supervisor_account"))
        try:
            original(self, *args, **kwargs)
        finally:
            _LAUNCHING.reset(token)

    server_class.__init__ = init
