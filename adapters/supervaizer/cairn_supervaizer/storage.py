"""What stands in for Supervaizer's StorageManager: the same calls, carried out by the service."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from supervaizer.common import log

from cairn_supervaizer.errors import StaleObjectError
from cairn_supervaizer.keys import document_id
from cairn_supervaizer.knowledge import Known, StoredObject, Version
from cairn_supervaizer.merging import MergeConflictError, merged
from cairn_supervaizer.objects import Found, Objects, text_of
from cairn_supervaizer.options import Options
from cairn_supervaizer.secrecy import cut

MERGES_MAX: Final = 50
PAUSE_MAX_SECONDS: Final = 0.05
# Every process writes this about itself, under one id: the last one to start is meant to be shown.
LAST_WINS: Final = frozenset({"ServerInfo"})
# What may not change while the id stays: another value means another object under the same id.
BELONGS_TO: Final = {"Job": "agent_name", "Case": "job_id"}
_LOCKS: Final = 64


class _Tables:
    """What the admin interface asks of TinyDB."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def tables(self) -> set[str]:
        """The types of which there are objects."""
        return set(self._objects.kinds())


class CairnStorage:
    """The objects of one store. Any number of threads and processes may use it at once.

    A save is committed when it returns. What it does when somebody else has changed the object since is `on_conflict`:
    `merge` unites both changes and refuses only where they contradict each other, `raise` refuses, both with
    `StaleObjectError`; `last_write_wins` overwrites, member by member, as TinyDB does.
    """

    def __init__(self, options: Options, store: str | None = None, db_path: str | None = None) -> None:
        self._options = options
        self._objects = Objects(options, store or options.store)
        self._known = Known()
        self._secrets = options.secrets
        # Nothing here takes it; what is written for Supervaizer's own storage may look for it.
        self._lock = threading.Lock()
        self._saving = [threading.Lock() for _ in range(_LOCKS)]
        self._db = _Tables(self._objects)
        self.db_path = Path(db_path or f"/cairn/{options.address}/{self._objects.store}")
        self._set_rules()

    def save_object(self, type: str, obj: dict[str, Any]) -> None:
        """Store an object, or the members of it that are given. Secret members are left out.

        One without an id, or with a number that JSON has not (NaN), is a `ValueError`; a value that JSON does not know
        is a `TypeError`. Nothing is stored then.
        """
        object_id = obj.get("id")
        if not object_id:
            raise ValueError("[StorageManager] §SSSS01 Object must have an 'id' field")
        # A copy of our own, as it will be read: the caller's may change at any time.
        value = json.loads(json.dumps(obj, allow_nan=False))
        cut(value, self._secrets.get(type, ()))
        key = document_id(object_id)
        with self._saving[hash((type, key)) % _LOCKS]:
            of_caller = obj.version if isinstance(obj, StoredObject) else None
            version = self._saved(type, key, value, of_caller or self._known.get(type, key))
            if of_caller is not None and isinstance(obj, StoredObject):
                obj.version = version
                self._known.note(type, key, version)
            else:
                self._known.hold(type, key, version)

    def get_objects(self, type: str) -> list[dict[str, Any]]:
        """Every object of a type, in the order in which they were first saved; copies of the caller's own."""
        return [*self.every(type)]

    def get_object_by_id(self, type: str, obj_id: Any) -> dict[str, Any] | None:
        """One object, a copy of the caller's own; None when there is none. Ids match by type: 5 is not "5"."""
        found = self._objects.get(type, document_id(obj_id)) if obj_id else None
        return None if found is None else self._read(type, found)

    def delete_object(self, type: str, obj_id: Any) -> bool:
        """Delete an object; False when there was none."""
        if not obj_id:
            return False
        key = document_id(obj_id)
        deleted = self._objects.delete(type, key)
        self._known.forget(type, key)
        return deleted

    def get_cases_for_job(self, job_id: Any) -> list[dict[str, Any]]:
        """The cases that name a job, in the order in which they were first saved.

        The service finds them by what it can index. Those that it cannot (U+0000 in a string, more than 4 MiB) come
        last, if the job names them too, as it does those that were started under it.
        """
        found = {one.key: one for one in self._objects.all("Case", {"job_id": job_id})}
        job = self._objects.get("Job", document_id(job_id))
        for key in map(document_id, (job.value().get("case_ids") or ()) if job else ()):
            if key not in found and (one := self._objects.get("Case", key)):
                found[key] = one
        cases = (self._read("Case", one) for one in found.values())
        return [one for one in cases if one.get("job_id") == job_id]

    def reset_storage(self) -> None:
        """Delete every object of the store, for every process that uses it."""
        for kind in self._objects.kinds():
            self._objects.clear(kind)
        self._known.clear()
        self._set_rules()
        log.info(f"[Storage] Every object of the store {self._objects.store} was deleted")

    def close(self) -> None:
        """Close the connections; again is nothing. Any later use is a `ValueError`."""
        self._objects.close()

    def every(self, type: str) -> Iterator[StoredObject]:
        """Every object of a type as `get_objects` gives it, one after the other."""
        return (self._read(type, found) for found in self._objects.all(type))

    def holds(self, type: str, read: StoredObject) -> None:
        """An entity of this process was made of what was read: what it saves later are changes of that."""
        if read.version is not None:
            self._known.hold(type, read.key, read.version)

    def _read(self, type: str, found: Found) -> StoredObject:
        read = StoredObject(found.value())
        read.key, read.version = found.key, _version_of(found)
        self._known.note(type, read.key, read.version)
        return read

    def _set_rules(self) -> None:
        for kind, paths in self._secrets.items():
            self._objects.rule(kind, paths, self._options.history)

    def _saved(self, type: str, key: str, value: dict[str, Any], known: Version | None) -> Version:
        if self._options.on_conflict == "last_write_wins" or type in LAST_WINS:
            text = text_of(value)
            etag = self._objects.patch(type, key, text, None)
            assert etag is not None, "a patch without a precondition has an answer"
            return Version(etag, text, text)
        seen = None if known is None else json.loads(known.seen)
        for attempt in range(MERGES_MAX):
            saved = self._tried(type, key, value, known, seen)
            if saved is not None:
                return saved
            self._refuse_if_strict(type, key, value["id"])
            time.sleep(random.uniform(0, PAUSE_MAX_SECONDS) if attempt else 0)  # noqa: S311 - jitter is no secret
            found = self._objects.get(type, key)
            known = None if found is None else _version_of(found)
        self._known.release(type, key)
        raise StaleObjectError(type, value["id"], f"others changed it {MERGES_MAX} times meanwhile")

    def _tried(
        self, type: str, key: str, value: dict[str, Any], known: Version | None, seen: dict[str, Any] | None
    ) -> Version | None:
        """The version that a save made; None when what is stored is not what was thought."""
        if known is None:
            text = text_of(value)
            etag = self._objects.create(type, key, text)
            return None if etag is None else Version(etag, text, text)
        stored = json.loads(known.stored)
        if seen is None:
            self._refuse_another(type, key, value, stored)
        try:
            result = merged(seen, value, stored)
        except MergeConflictError as conflict:
            self._known.release(type, key)
            why = f"{conflict.member} was changed elsewhere, and otherwise than here"
            raise StaleObjectError(type, value["id"], why, conflict.member) from conflict
        members = {name: result[name] for name in value if name in result}
        etag = self._objects.patch(type, key, text_of(members), known.etag)
        if etag is None:
            return None
        now_seen, now_stored = text_of({**(seen or {}), **value}), text_of(result)
        return Version(etag, now_seen, now_seen if now_seen == now_stored else now_stored)

    def _refuse_if_strict(self, type: str, key: str, object_id: Any) -> None:
        if self._options.on_conflict == "raise":
            self._known.release(type, key)
            raise StaleObjectError(type, object_id, "it was changed elsewhere")

    def _refuse_another(self, type: str, key: str, value: dict[str, Any], stored: dict[str, Any]) -> None:
        owner = BELONGS_TO.get(type, "")
        if owner in value and owner in stored and value[owner] != stored[owner]:
            self._known.release(type, key)
            why = f"this id is taken by one whose {owner} is {stored[owner]!r}"
            raise StaleObjectError(type, value["id"], why, f"/{owner}")


def _version_of(found: Found) -> Version:
    return Version(found.etag, found.text, found.text)
