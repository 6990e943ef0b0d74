"""Named leases. The row is there from the first acquisition on, and its token never falls."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, Table

from app.db.columns import METADATA, IdText, identity, moment, tenant

# The tenant of the service's own leases is the empty one, so no tenant is referred to.
leases = Table(
    "leases",
    METADATA,
    tenant(),
    identity("name"),
    # Who holds it; empty once released. A lease that has lapsed keeps the name of who held it last.
    Column("holder", IdText),
    Column("fencing_token", BigInteger, nullable=False),
    Column("lease_seconds", Integer, nullable=False),
    # As PostgreSQL knows it: renewals that went to Redis alone are later.
    moment("expires_at", default=True),
    moment("acquired_at", default=True),
    # No renewal in Redis alone holds it for longer than this: who cannot see Redis waits for it.
    moment("carried_until"),
    CheckConstraint("fencing_token > 0", name="fencing_token"),
    CheckConstraint("lease_seconds > 0", name="lease_seconds"),
)
