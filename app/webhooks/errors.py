"""What can be wrong about webhooks and their deliveries."""

from __future__ import annotations

from app.errors import Conflict, NotFound


class WebhookNotFound(NotFound):
    """There is no such webhook for this tenant."""

    code, title = "webhook_not_found", "There is no such webhook"


class WebhookConflict(Conflict):
    """The id belongs to a webhook that was created with other fields."""

    code, title = "webhook_conflict", "The id belongs to another webhook"


class DeliveryNotFound(NotFound):
    """There is no such delivery for this tenant."""

    code, title = "delivery_not_found", "There is no such delivery"


class DeliveryUnderWay(Conflict):
    """The delivery waits for an attempt, or one is under way; `current_status` says which."""

    code, title = "delivery_under_way", "The delivery is under way"


class DeliveryGone(Conflict):
    """The delivery is no longer kept."""

    code, title = "delivery_gone", "The delivery is no longer kept"


class EventGone(Conflict):
    """The delivery was made, its body was not kept, and its event is older than what is kept."""

    code, title = "event_gone", "The event of the delivery is no longer kept"


class EndpointGone(Conflict):
    """The webhook of the delivery was deleted."""

    code, title = "endpoint_gone", "The webhook was deleted"


class EndpointDisabled(Conflict):
    """The webhook is disabled: nothing is sent to it before it is enabled."""

    code, title = "endpoint_disabled", "The webhook is disabled"
