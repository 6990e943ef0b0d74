"""What `install` can be told, by arguments or by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

from cairn_supervaizer.keys import prefix_of
from cairn_supervaizer.secrecy import paths_by_type

OnConflict = Literal["merge", "raise", "last_write_wins"]

_VARIABLES: Final = {
    "url": "CAIRN_URL",
    "api_key": "CAIRN_API_KEY",
    "tenant": "CAIRN_TENANT",
    "store": "CAIRN_SUPERVAIZER_STORE",
    "on_conflict": "CAIRN_SUPERVAIZER_ON_CONFLICT",
    "timeout_seconds": "CAIRN_SUPERVAIZER_TIMEOUT_SECONDS",
    "history": "CAIRN_SUPERVAIZER_HISTORY",
}


@dataclass(frozen=True)
class Options:
    """Where objects are kept and how. Wrong ones are a `ValueError` at once.

    `store` parts controllers that share a tenant; `on_conflict` says what a save does that would undo somebody else's;
    `secret_paths` names further secret members by type; `history` is how many earlier revisions of each object are
    kept; `tenant` is only for the operator's key.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    tenant: str | None = None
    store: str = "default"
    on_conflict: OnConflict = "merge"
    secret_paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    history: int = 0
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        prefix_of(self.store)
        if self.on_conflict not in get_args(OnConflict):
            raise ValueError(f"on_conflict {self.on_conflict!r} is none of {', '.join(get_args(OnConflict))}")
        if self.timeout_seconds <= 0:
            raise ValueError("timeout_seconds must be more than 0")
        paths_by_type(self.secret_paths)

    @property
    def secrets(self) -> dict[str, tuple[str, ...]]:
        """The secret paths of every type that has some."""
        return paths_by_type(self.secret_paths)

    @property
    def address(self) -> str:
        """Host and port, for those who are shown where objects are kept."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


def options_of(**given: Any) -> Options:
    """Options from what was given, else from the environment, else the defaults. Without a URL it is a `ValueError`."""
    found: dict[str, Any] = {
        name: os.environ[variable] for name, variable in _VARIABLES.items() if os.environ.get(variable)
    }
    found |= {name: value for name, value in given.items() if value is not None}
    if "url" not in found:
        raise ValueError("no url: give it to install(url=...), or set CAIRN_URL, for example http://127.0.0.1:8000")
    for name, kind in (("timeout_seconds", float), ("history", int)):
        if name in found:
            found[name] = kind(found[name])
    return Options(**found)
