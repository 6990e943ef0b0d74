"""Offboarding over HTTP: for the operator alone."""

from __future__ import annotations

import asyncio

from app.db.database import Answer
from app.errors import Forbidden
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.offboarding import store
from app.offboarding.errors import OffboardingNotFound, OffboardingUnderWay
from app.offboarding.schemas import Offboarding, OffboardingList, OffboardingPage, SignedReceipt
from app.tenants.keys import key_of
from app.tenants.routes import operators

# So much later than every process has heard that the tenant is closed, its rows begin to leave.
MARGIN_SECONDS = 1.0


def _require_operator(call: Call) -> None:
    if not call.caller.operator:
        raise Forbidden("Only the operator sees offboardings.", missing_scope="operator")


def routes_of(trusted_seconds: float) -> Routes:
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
    )
    async def delete_tenant(call: Call, tenant_id: str) -> Answer:
        """Close the tenant, and remove everything that is its own. Operator only; again is the same offboarding.

        When this is answered, no key acts for the tenant any more (403 `tenant_closed`), in any process. Rows, memory,
        artifacts, values of the cache and messages of streams then go in the background; after a pause everything is
        looked for once more. In the end there is a receipt, and the tenant is named nowhere.
        """
        name = operators(call, tenant_id)

        async def let_go() -> None:
            call.ground.hints.publish(key_of(name))
            await asyncio.sleep(trusted_seconds)

        call.afterwards.append(let_go)
        return await store.begin(call.writer, name, trusted_seconds + MARGIN_SECONDS)

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

    return routes
