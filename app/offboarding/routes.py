"""Offboarding over HTTP: for the operator alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
from starlette.responses import Response

from app.db.database import Answer, Writer
from app.errors import AppError, Forbidden
from app.http import ranged
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.offboarding import store
from app.offboarding.errors import OffboardingNotFound, OffboardingUnderWay
from app.offboarding.schemas import Leaving, Offboarding, OffboardingList, OffboardingPage, SignedReceipt
from app.tenants.keys import key_of
from app.tenants.routes import operators

# So much later than every process has heard that the tenant is closed, its rows begin to leave.
MARGIN_SECONDS = 1.0


def _require_operator(call: Call) -> None:
    if not call.caller.operator:
        raise Forbidden("Only the operator sees offboardings.", missing_scope="operator")


@dataclass(frozen=True)
class Exports:
    """How a tenant is exported: what has a backup made, what answers with its file, and what that refuses."""

    make: Callable[[Writer, str], Awaitable[Answer]]
    content: Callable[[Call, str, str], Awaitable[Answer | Response]]
    errors: tuple[type[AppError], ...]


class _Named(msgspec.Struct):
    id: str


def routes_of(trusted_seconds: float, exports: Exports) -> Routes:
    """The routes; a key is trusted for so long where nobody hears that it opens nothing any more."""
    routes = Routes("offboardings")

    # Not in a batch: its answer waits.
    @routes.delete(
        "/v1/tenants/{tenant_id}",
        scope="admin",
        response_model=Offboarding,
        status_code=202,
        accepted_at="/v1/offboardings/{}",
        batchable=False,
        transactional=True,
    )
    async def delete_tenant(call: Call, tenant_id: str, query: Leaving) -> Answer:
        """Close the tenant, and remove everything that is its own. Operator only; again is the same offboarding.

        When this is answered, no key acts for the tenant any more (403 `tenant_closed`), in any process. Rows, memory,
        artifacts, values of the cache and messages of streams then go in the background; after a pause everything is
        looked for once more. In the end there is a receipt, and the tenant is named nowhere. With `export` a backup is
        made first, and nothing is removed before it is confirmed.
        """
        name = operators(call, tenant_id)

        async def let_go() -> None:
            call.ground.hints.publish(key_of(name))
            await asyncio.sleep(trusted_seconds)

        async def make() -> str:
            made = await exports.make(call.writer, name)
            return msgspec.json.decode(made.body or b"", type=_Named).id

        call.afterwards.append(let_go)
        answer = await store.begin(
            call.writer, name, trusted_seconds + MARGIN_SECONDS, call.if_match, export=query.export
        )
        return await store.exports_to(call.writer, name, make) if query.export else answer

    @routes.get("/v1/offboardings", scope="admin", response_model=OffboardingPage)
    async def list_offboardings(call: Call, query: OffboardingList) -> Answer:
        """The tenants that leave or have left. Operator only."""
        _require_operator(call)
        return await page(call, store.OFFBOARDINGS, query)

    @routes.get(
        "/v1/offboardings/{offboarding_id}",
        scope="admin",
        response_model=Offboarding,
        errors=(OffboardingNotFound,),
    )
    async def get_offboarding(call: Call, offboarding_id: str) -> Answer:
        """How far it is. Operator only."""
        _require_operator(call)
        return await store.get(call.reader, offboarding_id)

    @routes.get(
        "/v1/offboardings/{offboarding_id}/receipt",
        scope="admin",
        response_model=SignedReceipt,
        errors=(OffboardingNotFound, OffboardingUnderWay),
    )
    async def get_receipt(call: Call, offboarding_id: str) -> Answer:
        """What is gone, signed; byte for byte the same each time. Operator only.

        `cairn tenants verify-receipt` checks a file of it; `signing_key` of `GET /v1/capabilities` is the public key.
        """
        _require_operator(call)
        return await store.receipt(call.reader, offboarding_id)

    @routes.get(
        "/v1/offboardings/{offboarding_id}/export",
        scope="admin",
        response_class=Response,
        batchable=False,
        errors=(OffboardingNotFound, *exports.errors),
        responses=ranged.documented({"Content-Disposition": "Always `attachment`.", "Accept-Ranges": "`bytes`."}),
        openapi_extra={"parameters": ranged.RANGE_HEADERS},
    )
    async def get_export(call: Call, offboarding_id: str) -> Answer | Response:
        """The file of the backup that was made first; one range of it if asked. Operator only.

        It goes with the tenant: keep it before it is confirmed.
        """
        _require_operator(call)
        return await exports.content(call, *await store.export_of(call.reader, offboarding_id))

    @routes.post(
        "/v1/offboardings/{offboarding_id}/confirm",
        scope="admin",
        response_model=Offboarding,
        batchable=False,
        errors=(OffboardingNotFound, OffboardingUnderWay),
    )
    async def confirm_export(call: Call, offboarding_id: str) -> Answer:
        """Say that the export is in good hands: the tenant's rows leave from now on. Operator only."""
        _require_operator(call)
        return await store.confirm(call.writer, offboarding_id)

    @routes.post(
        "/v1/offboardings/{offboarding_id}/cancel",
        scope="admin",
        status_code=204,
        batchable=False,
        errors=(OffboardingNotFound, OffboardingUnderWay),
    )
    async def cancel_offboarding(call: Call, offboarding_id: str) -> Answer:
        """Open the tenant again, while its export is made or waits to be confirmed. Operator only.

        The offboarding is forgotten; a backup that was made stays with the tenant.
        """
        _require_operator(call)
        answer = await store.cancel(call.writer, offboarding_id)
        call.moved.extend(key_of(name) for name in answer.moved)
        return answer

    return routes
