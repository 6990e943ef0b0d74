"""Deliveries over HTTP."""

from __future__ import annotations

from app.db.database import Answer
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import IncludeQuery, page
from app.webhooks import delivery_store, store
from app.webhooks.delivery_schemas import AllDeliveryList, Delivery, DeliveryList, DeliveryPage
from app.webhooks.errors import (
    DeliveryNotFound,
    DeliveryUnderWay,
    EndpointDisabled,
    EndpointGone,
    EventGone,
    WebhookNotFound,
)
from app.webhooks.schemas import WebhookTest

routes = Routes("webhooks")
# Where a delivery that was accepted is.
ACCEPTED_AT = "/v1/deliveries/{}"


@routes.post(
    "/v1/webhooks/{webhook_id}/test",
    scope="webhooks:write",
    accepted_at=ACCEPTED_AT,
    response_model=Delivery,
    status_code=202,
    errors=(WebhookNotFound, EndpointDisabled),
)
async def send_webhook_test(call: Call, webhook_id: str, body: WebhookTest) -> Answer:
    """Send an event of type `webhook.test` to this webhook alone, signed and retried as every other.

    What came of it is in the delivery. A webhook that is disabled is sent nothing: enable it first.
    """
    call.moved.append(delivery_store.key_of(call.tenant_id))
    return await delivery_store.test(call.writer, call.tenant_id, webhook_id, body.data)


@routes.get(
    "/v1/webhooks/{webhook_id}/deliveries",
    scope="webhooks:read",
    response_model=DeliveryPage,
    errors=(WebhookNotFound,),
)
async def list_webhook_deliveries(call: Call, webhook_id: str, query: DeliveryList) -> Answer:
    """The deliveries of a webhook, the latest first; also of one that was deleted, while they are kept."""
    return await page(
        call,
        delivery_store.DELIVERIES,
        query,
        {**query.filters(), "webhook_id": webhook_id},
        if_empty=lambda: store.get(call.reader, call.tenant_id, webhook_id),
    )


@routes.get("/v1/deliveries", scope="webhooks:read", response_model=DeliveryPage)
async def list_deliveries(call: Call, query: AllDeliveryList) -> Answer:
    """The deliveries of all webhooks of this tenant, the latest first."""
    return await page(call, delivery_store.DELIVERIES, query)


@routes.get("/v1/deliveries/{delivery_id}", scope="webhooks:read", response_model=Delivery, errors=(DeliveryNotFound,))
async def get_delivery(call: Call, delivery_id: str, query: IncludeQuery) -> Answer:
    """A delivery with its attempts; with `include=body` what is sent, byte for byte."""
    include = delivery_store.DELIVERY.included(query.include)
    return await delivery_store.get(call.reader, call.tenant_id, delivery_id, include)


@routes.post(
    "/v1/deliveries/{delivery_id}/redeliver",
    scope="webhooks:write",
    accepted_at=ACCEPTED_AT,
    response_model=Delivery,
    status_code=202,
    errors=(DeliveryNotFound, DeliveryUnderWay, EndpointGone, EndpointDisabled, EventGone),
)
async def redeliver(call: Call, delivery_id: str) -> Answer:
    """Send a delivery that has ended again: a new round of attempts, with the same `webhook-id` and body.

    Where it was given up, its dead letter goes. Nothing is sent twice at once: one that is under way is 409.
    """
    call.moved.append(delivery_store.key_of(call.tenant_id))
    return await delivery_store.redeliver(call.writer, call.tenant_id, delivery_id)
