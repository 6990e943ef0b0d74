"""The objects of one store over HTTP: each type a collection of documents, each object a document."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.client import Cairn, Json, NotFoundError, PreconditionFailedError, Retry
from cairn_supervaizer.errors import StoreInUseError
from cairn_supervaizer.keys import collection_of, prefix_of
from cairn_supervaizer.options import Options

PAGE_OBJECTS: Final = 500
TRIES_MAX: Final = 20
RETRY: Final = Retry(attempt_max=3, first_pause_seconds=0.05, pause_max_seconds=1.0, retry_after_max_seconds=2.0)


@dataclass(frozen=True, slots=True)
class Found:
    """An object as it is stored: its document id, its exact text, and the ETag of the revision that it is."""

    key: str
    text: bytes
    etag: str

    def value(self) -> Any:
        """The object, the caller's own."""
        return json.loads(self.text)


def text_of(value: Mapping[str, Any]) -> bytes:
    """The JSON of an object. A number that JSON has not is a `ValueError`, another such value a `TypeError`."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


class Objects:
    """The objects of one store, by type and document id. Any number of threads may use it.

    Every write is committed when its call returns. A process that was forked gets connections of its own.
    """

    def __init__(self, options: Options, store: str) -> None:
        prefix_of(store)
        self._options = options
        self.store = store
        self._lock = threading.Lock()
        self._client: Cairn | None = None
        self._process = 0
        self._closed = False

    def get(self, kind: str, key: str) -> Found | None:
        """One object; None when there is none."""
        try:
            found = self._connected().documents.get(self._collection(kind), key)
        except NotFoundError:
            return None
        return Found(key, found.body.data, found.etag)

    def all(self, kind: str, contains: Mapping[str, Any] | None = None) -> Iterator[Found]:
        """Every object of a type in the order in which they were first saved, page by page."""
        documents, collection = self._connected().documents, self._collection(kind)
        if contains is None:
            found = documents.query(collection, include=["body"], limit=PAGE_OBJECTS)
        else:
            found = documents.query(collection, contains=contains, include=["body"], limit=PAGE_OBJECTS)
        for one in found:
            yield Found(one.id, one.raw("body").data, f'"{one.revision}"')

    def create(self, kind: str, key: str, text: bytes) -> str | None:
        """Store an object that is not there yet, and give its ETag; None when it is there."""
        client = self._connected().using(if_none_match="*")
        try:
            return client.documents.put(self._collection(kind), key, Json.trusted(text)).etag
        except PreconditionFailedError:
            return None

    def patch(self, kind: str, key: str, members: bytes, etag: str | None) -> str | None:
        """Replace members of an object and give its new ETag; None when it is not the one that `etag` names.

        Without an ETag the object is changed whatever it is, and made when there is none.
        """
        client = self._connected().using(if_match=etag)
        try:
            return client.documents.patch(self._collection(kind), key, Json.trusted(members), merge="shallow").etag
        except PreconditionFailedError:
            return None

    def delete(self, kind: str, key: str) -> bool:
        """Delete an object; False when there was none."""
        try:
            self._connected().documents.delete(self._collection(kind), key)
        except NotFoundError:
            return False
        return True

    def kinds(self) -> dict[str, int]:
        """The types of which there are objects, and how many."""
        prefix = prefix_of(self.store)
        return {
            one.name.removeprefix(prefix): one.document_count
            for one in self._connected().documents.collections(limit=1000)
            if one.name.startswith(prefix) and one.document_count
        }

    def clear(self, kind: str) -> None:
        """Delete every object of a type. The rules of its collection go with them."""
        try:
            self._connected().documents.delete_collection(self._collection(kind))
        except NotFoundError:
            return

    def rule(self, kind: str, secret_paths: Iterable[str], history: int) -> None:
        """Let the service cut these paths out of every object of a type, stored ones too, beside those it cuts."""
        client, collection = self._connected(), self._collection(kind)
        for _ in range(TRIES_MAX):
            try:
                there = client.documents.collection(collection)
            except NotFoundError:
                client.documents.put_collection(collection, secret_paths=[*secret_paths], history=history)
                continue
            wanted = there.secret_paths + [one for one in secret_paths if one not in there.secret_paths]
            if wanted == there.secret_paths and there.history >= history:
                return
            rules, held = client.using(if_match=there.etag).documents, max(history, there.history)
            try:
                rules.put_collection(collection, secret_paths=wanted, history=held)
            except PreconditionFailedError:
                continue
        raise StoreInUseError(f"the rules of {collection} change all the time")

    def close(self) -> None:
        """Close the connections; every later call is a `ValueError`."""
        with self._lock:
            self._closed = True
            if self._client is not None and self._process == os.getpid():
                self._client.close()
            self._client = None

    def _collection(self, kind: str) -> str:
        return collection_of(self.store, kind)

    def _connected(self) -> Cairn:
        with self._lock:
            if self._closed:
                raise ValueError("I/O operation on closed storage: StorageManager.close() was called")
            if self._client is None or self._process != os.getpid():
                options = self._options
                self._client = Cairn(
                    options.url,
                    key=options.api_key,
                    tenant=options.tenant,
                    retry=RETRY,
                    timeout_seconds=options.timeout_seconds,
                )
                self._process = os.getpid()
            return self._client
