"""Who calls: the tenant they act for and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

from app.errors import Forbidden

# How the id of a tenant, and a scope, are written.
TENANT_ID = r"[a-z0-9_-]{1,64}"
SCOPE = r"(admin|\*|(\*|[a-z][a-z-]{0,40}):(\*|read|write))"


@dataclass(frozen=True)
class Rate:
    """How many requests a second a tenant may send, and how many at once after a rest.

    It is `read` or `write` where that class of requests has a limit of its own, and `tenant` where they share one.
    """

    name: Literal["tenant", "read", "write"]
    per_second: int
    burst: int


@dataclass(frozen=True)
class Caller:
    """An authenticated caller. `tenant_id` is None only for the operator when no tenant was named."""

    tenant_id: str | None
    key_id: str | None
    scopes: frozenset[str]
    operator: bool = False
    read_rate: Rate | None = None
    write_rate: Rate | None = None

    def require(self, scope: str) -> None:
        """Raise `Forbidden`, naming the scope, unless the caller has it."""
        if not self.operator and not permits(self.scopes, scope):
            raise Forbidden(f"The key lacks the scope {scope}.", missing_scope=scope)


@lru_cache(maxsize=4096)
def permits(scopes: frozenset[str], wanted: str) -> bool:
    """Whether scopes cover one: exactly, by `*` for the domain, the action or both; never `admin` by a wildcard."""
    if wanted in scopes:
        return True
    if wanted == "admin":
        return False
    domain, _, action = wanted.partition(":")
    return bool(scopes & {"*", "*:*", f"{domain}:*", f"*:{action}"}) or "admin" in scopes


class Authenticator(Protocol):
    """Finds the caller of a request. Raises `Unauthenticated`, `Forbidden`, `NotFound` (an unknown tenant)."""

    async def caller(self, authorization: str | None, tenant: str | None) -> Caller: ...
