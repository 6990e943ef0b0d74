"""One request, as a route sees it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from starlette.requests import Request

from app.blobs.blobs import Blobs
from app.bus.hints import Hints, Key
from app.cache.cache import Cache
from app.db.database import Database, KeyClaim, Reader, Writer
from app.db.fences import NO_FENCES, Fence, Fences, LeaseFence
from app.embeddings.embedder import Embedder
from app.errors import TenantRequired, invalid
from app.http.caller import Caller
from app.http.fields import INTEGER_MAX
from app.settings import HttpSettings
from app.signing import Signer
from app.turns import Turns

if TYPE_CHECKING:
    from app.http.live import Live
    from app.http.metrics import Metrics
    from app.http.parts import Parts
    from app.http.received import Received
    from app.http.remembered import Remembered
    from app.http.router import Router

_KEY = re.compile(r"[\x21-\x7e]{1,255}").fullmatch
_TOKEN = re.compile(r"[1-9][0-9]{0,15}").fullmatch
_ETAG = re.compile(r'"(\d{1,18})"').fullmatch
MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True)
class Ground:
    """What every request stands on; built once in `create_app`."""

    database: Database
    settings: HttpSettings
    metrics: Metrics
    router: Router[Any]
    parts: Parts
    drawing: Turns
    comparing: Turns
    hints: Hints
    live: Live
    cache: Cache
    versions: Remembered
    collections: Remembered
    blobs: Blobs
    # Up to so many bytes lie in a row, more in the object store.
    inline_bytes_max: int
    # What the domains bound, beside what `settings` do, by the names that clients are told.
    limits: Mapping[str, int]
    # None where no service for it is configured.
    embedder: Embedder | None = None
    # What signs for the service; None where it has no key.
    signer: Signer | None = None


class Call(Request):
    """A request with its caller, its tenant and its way to the database."""

    ground: Ground
    caller: Caller
    raw_body: bytes = b""
    received: Received | None = None
    writer: Writer
    reader: Reader
    # What is held for this call: not the attempt where there is none, or where the route holds it itself.
    held: Fences = NO_FENCES
    # Whether it may change the submission that is held: its session is locked before it, as everybody does.
    session_first: bool = False
    batched: bool = False
    # Finds the caller as at the start; None for a call within another, which does not wait.
    find_caller: Callable[[], Awaitable[Caller]] | None = None
    # How long it waited for what others write; that is not time that the service took.
    waited_seconds: float = 0.0

    @property
    def tenant_id(self) -> str:
        """The tenant that this call acts for. Raises `TenantRequired` for an operator who named none."""
        if self.caller.tenant_id is None:
            raise TenantRequired("The operator's key acts for a tenant; name it in the header X-Tenant-Id.")
        return self.caller.tenant_id

    async def check_caller(self) -> None:
        """Raise as at the start of the call where its key opens nothing any more: it may be revoked during a wait."""
        if self.find_caller is not None:
            await self.find_caller()

    @property
    def claim_tenant(self) -> str:
        """The tenant whose Idempotency-Keys this call uses; the operator's own calls have keys of their own."""
        return self.caller.tenant_id or ""

    @property
    def raw_path(self) -> str:
        """The path as it was sent, still percent-encoded."""
        raw: bytes = self.scope.get("raw_path") or self.scope["path"].encode()
        return raw.decode("latin-1").partition("?")[0]

    @cached_property
    def moved(self) -> list[Key]:
        """What this call has moved: a handler adds to it, and after the commit it is told to whoever waits for it."""
        return []

    @cached_property
    def afterwards(self) -> list[Callable[[], Awaitable[None]]]:
        """What is to be done for this call once it is committed, and not before: a handler adds to it. None raises."""
        return []

    @cached_property
    def claim(self) -> KeyClaim | None:
        """The Idempotency-Key with the request's fingerprint. Raises `InvalidInput` for a malformed one."""
        key = self.headers.get("idempotency-key")
        if key is None or self.method not in MUTATING:
            return None
        if not _KEY(key):
            raise invalid("Idempotency-Key", "must be 1 to 255 visible ASCII characters")
        digest = hashlib.sha256()
        body = self.raw_body if self.received is None else self.received.digest
        for part in (self.method.encode(), self.raw_path.encode(), self.scope["query_string"], body):
            digest.update(len(part).to_bytes(8))
            digest.update(part)
        return KeyClaim(key, digest.digest())

    @cached_property
    def fence(self) -> Fence | None:
        """The attempt named in `Submission-Attempt`. Raises `InvalidInput` for a malformed one."""
        parts = self._fence_parts("submission-attempt")
        if parts is None:
            return None
        if len(parts) != 2 or not all(parts):
            raise invalid("Submission-Attempt", "must be <submission_id>;<attempt_id>, each percent-encoded")
        return Fence(parts[0], parts[1])

    @cached_property
    def lease_fence(self) -> LeaseFence | None:
        """The lease and its token, named in `Lease`. Raises `InvalidInput` for a malformed one, and `TenantRequired`
        for an operator who named no tenant: the leases of none are the service's own.
        """
        parts = self._fence_parts("lease")
        if parts is None:
            return None
        if len(parts) != 2 or not parts[0] or not _TOKEN(parts[1]) or int(parts[1]) > INTEGER_MAX:
            raise invalid("Lease", "must be <name>;<fencing_token>, the name percent-encoded")
        if self.caller.tenant_id is None:
            raise TenantRequired("A lease is its tenant's; name the tenant in the header X-Tenant-Id.")
        return LeaseFence(parts[0], int(parts[1]))

    def _fence_parts(self, name: str) -> list[str] | None:
        header = self.headers.get(name)
        if header is None:
            return None
        try:
            parts = [unquote_to_bytes(part.encode("ascii")).decode() for part in header.strip().split(";")]
        except UnicodeError:
            return []
        # What no text column can hold is no part of a name.
        return parts if not any("\x00" in part for part in parts) else []

    @cached_property
    def if_match(self) -> list[int] | None:
        """The revisions that `If-Match` accepts; None where any will do. A weak or foreign tag matches nothing."""
        given = self.headers.getlist("if-match")
        header = ",".join(given)
        if not given or header.strip() == "*":
            return None
        return [int(match[1]) for part in header.split(",") if (match := _ETAG(part.strip()))]

    @property
    def may_create(self) -> bool:
        """Whether a PUT may make what is not there yet: not under an `If-Match`, be it `*`."""
        return "if-match" not in self.headers

    @property
    def only_new(self) -> bool:
        """Whether a PUT may only make what is not there yet (`If-None-Match: *`). Raises `InvalidInput` for ETags."""
        given = self.headers.getlist("if-none-match")
        if given and (len(given) > 1 or given[0].strip() != "*"):
            raise invalid("If-None-Match", "must be * on a write")
        return bool(given)
