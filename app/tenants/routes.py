"""Tenants and API keys over HTTP."""

from __future__ import annotations

import json
import re

from app.db.database import Answer
from app.errors import Forbidden, NotFound, invalid
from app.http.call import Call
from app.http.caller import TENANT_ID, permits
from app.http.endpoint import Routes
from app.http.paging import page
from app.tenants import store
from app.tenants.errors import KeyConflict, TenantLeaving
from app.tenants.keys import key_of, new_key
from app.tenants.schemas import ApiKey, KeyList, KeyPage, Limits, NewKey, Tenant, TenantFields, TenantList, TenantPage

routes = Routes("tenants")
_NOT_SEEN = "There is no such tenant for this key, which sees its own alone; the operator's key sees every one."


def operators(call: Call, tenant_id: str) -> str:
    """The tenant, if the caller is the operator; to a tenant's own key other tenants do not exist."""
    if not call.caller.operator:
        if call.caller.tenant_id != tenant_id:
            raise NotFound(_NOT_SEEN)
        raise Forbidden("Only the operator changes tenants.", missing_scope="operator")
    if not re.fullmatch(TENANT_ID, tenant_id):
        raise invalid("tenant_id", "must be 1 to 64 of a-z, 0-9, _ and -")
    return tenant_id


def _visible(call: Call, tenant_id: str) -> str:
    if not call.caller.operator and call.caller.tenant_id != tenant_id:
        raise NotFound(_NOT_SEEN)
    return tenant_id


@routes.put("/v1/tenants/{tenant_id}", scope="admin", response_model=Tenant, status_code=201, errors=(TenantLeaving,))
async def put_tenant(call: Call, tenant_id: str, body: TenantFields) -> Answer:
    """Make a tenant, or update the fields given. Operator only. 201 when made, 200 when it was there."""
    return await store.put(
        call.writer, operators(call, tenant_id), body.given(), call.if_match, may_create=call.may_create
    )


@routes.get("/v1/tenants/{tenant_id}", scope="admin", response_model=Tenant)
async def get_tenant(call: Call, tenant_id: str) -> Answer:
    """A tenant; a tenant's own key sees only its own."""
    return await store.get(call.reader, _visible(call, tenant_id))


@routes.patch("/v1/tenants/{tenant_id}", scope="admin", response_model=Tenant)
async def patch_tenant(call: Call, tenant_id: str, body: TenantFields) -> Answer:
    """Update the fields given. Operator only."""
    return await store.patch(call.writer, operators(call, tenant_id), body.given(), call.if_match)


@routes.get("/v1/tenants", scope="admin", response_model=TenantPage)
async def list_tenants(call: Call, query: TenantList) -> Answer:
    """All tenants, for the operator; a tenant's own key sees its own alone."""
    return await page(call, store.TENANTS if call.caller.operator else store.OWN, query)


@routes.get("/v1/tenants/{tenant_id}/limits", scope="admin", response_model=Limits)
async def get_limits(call: Call, tenant_id: str) -> Answer:
    """The limits of a tenant; an absent one does not apply."""
    return await store.limits(call.reader, _visible(call, tenant_id))


@routes.put("/v1/tenants/{tenant_id}/limits", scope="admin", response_model=Limits)
async def put_limits(call: Call, tenant_id: str, body: Limits) -> Answer:
    """Replace the limits of a tenant; they hold as soon as a revocation would. Operator only."""
    call.moved.append(key_of(tenant_id))
    given = json.dumps(body.model_dump(exclude_none=True)).encode()
    return await store.put_limits(call.writer, operators(call, tenant_id), given, call.if_match)


@routes.post("/v1/api-keys", scope="admin", response_model=ApiKey, status_code=201, errors=(KeyConflict,))
async def create_api_key(call: Call, body: NewKey) -> Answer:
    """Make a key for this tenant, within the caller's own scopes. The answer holds the key, this once."""
    _within(call, body.scopes)
    key, key_hash, hint = new_key()
    answer = await store.create_key(
        call.writer, call.tenant_id, body.id, body.name, (key_hash, hint), body.scopes, body.expires_at
    )
    return _with_secret(answer, key)


@routes.get("/v1/api-keys", scope="admin", response_model=KeyPage)
async def list_api_keys(call: Call, query: KeyList) -> Answer:
    """The keys of this tenant, without their secrets."""
    return await page(call, store.KEYS, query)


@routes.delete("/v1/api-keys/{key_id}", scope="admin", response_model=ApiKey)
async def revoke_api_key(call: Call, key_id: str) -> Answer:
    """Revoke a key. Every process stops trusting it at once, or within a second where it is not told."""
    call.moved.append(key_of(call.tenant_id))
    return await store.revoke_key(call.writer, call.tenant_id, key_id)


@routes.post("/v1/api-keys/{key_id}/rotate", scope="admin", response_model=ApiKey)
async def rotate_api_key(call: Call, key_id: str) -> Answer:
    """Give a key a new secret, shown this once. The old one ends as a revoked one does."""
    call.moved.append(key_of(call.tenant_id))
    _within(call, await store.key_scopes(call.writer, call.tenant_id, key_id))
    key, key_hash, hint = new_key()
    return _with_secret(await store.rotate_key(call.writer, call.tenant_id, key_id, (key_hash, hint)), key)


def _within(call: Call, scopes: list[str]) -> None:
    """A key makes keys within its scopes only. Raises `Forbidden` naming the first that exceeds them."""
    if call.caller.operator or "admin" in call.caller.scopes:
        return
    for scope in scopes:
        if not permits(call.caller.scopes, scope):
            raise Forbidden(f"The key lacks the scope {scope}, so it cannot give it.", missing_scope=scope)


def _with_secret(answer: Answer, key: str) -> Answer:
    assert answer.body is not None
    shown = answer.body.removesuffix(b"null}") + json.dumps(key).encode() + b"}"
    return Answer(answer.status, shown, answer.etag, kept=answer.body)
