"""Puts the storage of Cairn where Supervaizer has its own."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CellType
from typing import Any

from cairn_supervaizer.accounts import remember_account
from cairn_supervaizer.errors import UnknownSupervaizerError
from cairn_supervaizer.options import OnConflict, Options, options_of
from cairn_supervaizer.reload import Reloaded, reload_running
from cairn_supervaizer.storage import CairnStorage


@dataclass(frozen=True)
class Installed:
    """What was installed: `storage` is what `supervaizer.storage.StorageManager()` now gives."""

    options: Options
    storage: CairnStorage
    uninstall: Callable[[], None]
    """Give Supervaizer its own storage back, and close the connections."""


def install(
    url: str | None = None,
    api_key: str | None = None,
    store: str | None = None,
    on_conflict: OnConflict | None = None,
    *,
    secret_paths: Mapping[str, Iterable[str]] | None = None,
    account: Any | None = None,
    tenant: str | None = None,
    history: int | None = None,
    timeout_seconds: float | None = None,
) -> Installed:
    """Keep everything that Supervaizer persists from now on in Cairn. Call it once, before the server is made.

    What is not given comes from the environment (CAIRN_URL, CAIRN_API_KEY, CAIRN_SUPERVAIZER_STORE ...). It talks to
    the service, and raises if that cannot be reached or refuses the key. `account` is the one that reloaded cases get;
    without it they get that of the server, or of the environment.
    """
    options = options_of(
        url=url, api_key=api_key, store=store, on_conflict=on_conflict, tenant=tenant, history=history,
        timeout_seconds=timeout_seconds,
        secret_paths=secret_paths and {kind: tuple(paths) for kind, paths in secret_paths.items()},
    )  # fmt: skip
    # Imported here, as they read their environment then; all of them, so that every name is where it is replaced.
    import supervaizer.storage as module  # noqa: PLC0415
    from supervaizer import server  # noqa: PLC0415

    singleton = _Singleton(module.StorageManager)
    storage = CairnStorage(options)

    def reload() -> Reloaded:
        return reload_running(module.StorageManager(), account)

    singleton.replace(_opener(options, singleton.original), storage)
    names = _Names()
    names.bind("storage_manager", storage)
    names.bind("load_running_entities_on_startup", reload)
    remember_account(server.Server)

    def uninstall() -> None:
        names.restore()
        singleton.restore()
        storage.close()

    return Installed(options, storage, uninstall)


def _opener(options: Options, original: Callable[..., Any]) -> Callable[..., Any]:
    """What makes the one StorageManager of a process; a path makes a store of its own, `:memory:` stays in memory."""

    def open_storage(db_path: str | None = None) -> Any:
        if db_path == ":memory:":
            return original(db_path)
        if db_path is None:
            return CairnStorage(options)
        digest = hashlib.sha256(str(Path(db_path).absolute()).encode()).hexdigest()[:16]
        return CairnStorage(options, f"{options.store}-{digest}", db_path)

    return open_storage


class _Singleton:
    """The function that `StorageManager` is: what makes its instance, and the instance, are in its closure."""

    def __init__(self, manager: Any) -> None:
        cells = dict(zip((getattr(manager, "__code__", None) and manager.__code__.co_freevars) or (),
                         getattr(manager, "__closure__", None) or (), strict=True))  # fmt: skip
        if set(cells) != {"cls", "instances"}:
            raise UnknownSupervaizerError(
                "supervaizer.storage.StorageManager is not the singleton that it is in supervaizer 1.8;"
                " install a supervaizer that this adapter knows (>=1.8,<2)"
            )
        self._class: CellType = cells["cls"]
        self._instances: dict[Any, Any] = cells["instances"].cell_contents
        self.original: Callable[..., Any] = self._class.cell_contents
        self._before = dict(self._instances)

    def replace(self, opener: Callable[..., Any], instance: Any) -> None:
        """Let `opener` make instances, and `instance` be the one that there is."""
        self._class.cell_contents = opener
        self._instances.clear()
        self._instances[opener] = instance

    def restore(self) -> None:
        """As it was."""
        self._class.cell_contents = self.original
        self._instances.clear()
        self._instances.update(self._before)


class _Names:
    """Names that several modules of Supervaizer hold of one thing."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def bind(self, name: str, value: Any) -> None:
        """Let every module that has imported this name have another value; those that come later find it too."""
        for module in ("supervaizer.storage", "supervaizer.job", "supervaizer.server"):
            holder = sys.modules.get(module)
            if holder is not None and hasattr(holder, name):
                self._before.append((holder, name, getattr(holder, name)))
                setattr(holder, name, value)

    def restore(self) -> None:
        """As it was."""
        for holder, name, value in reversed(self._before):
            setattr(holder, name, value)
