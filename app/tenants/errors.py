"""What can be wrong with a tenant or a key."""

from __future__ import annotations

from app.db.integrity import OF_A_TENANT, constraint
from app.errors import Conflict, Forbidden


class KeyConflict(Conflict):
    """A key with this id exists."""

    code, title = "api_key_conflict", "A key with this id exists"


class TenantClosed(Forbidden):
    """The tenant is on its way out: no key acts for it any more, and the operator's does not either."""

    code, title = "tenant_closed", "The tenant is closed"


class TenantLeaving(Conflict):
    """A tenant of this id is on its way out; it can be made anew once its offboarding is completed."""

    code, title = "tenant_leaving", "A tenant of this id is on its way out"


constraint("pk_api_keys", lambda: KeyConflict("A key with this id exists; choose another id, or none."))
# A request that was under way when its tenant left.
constraint(OF_A_TENANT, lambda: TenantClosed("The tenant has left; nobody acts for it any more."))
