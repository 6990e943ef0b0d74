"""What can be wrong with a lease."""

from __future__ import annotations

from app.errors import Conflict, NotFound


class LeaseNotFound(NotFound):
    """Nobody of this tenant ever acquired a lease under this name."""

    code, title = "lease_not_found", "There is no such lease"


class LeaseHeld(Conflict):
    """Another holder has the lease: `holder`, under `fencing_token`, until `expires_at` unless it renews."""

    code, title = "lease_held", "Another holder has the lease"


class LeaseLost(Conflict):
    """The caller does not hold the lease; `current_token` and `holder` say who does, or did last."""

    code, title = "lease_lost", "The caller does not hold the lease"
