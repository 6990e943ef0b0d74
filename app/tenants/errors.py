"""What can be wrong with a tenant or a key."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import Conflict


class KeyConflict(Conflict):
    """A key with this id exists."""

    code, title = "api_key_conflict", "A key with this id exists"


constraint("pk_api_keys", lambda: KeyConflict("A key with this id exists; choose another id, or none."))
