"""Leases through the client: the holder's loop, and who comes after it."""

from __future__ import annotations

import pytest

from app.client import Cairn, ConflictError


def test_a_holder_renews_writes_and_releases_and_the_next_one_keeps_it_out(cairn: Cairn) -> None:
    lease = cairn.leases.acquire("client/import", "one", lease_seconds=60)
    token = lease.fencing_token
    first = cairn.using(lease=(lease.name, token))
    first.workflows.ensure("leased", name="first")
    assert cairn.leases.acquire("client/import", "one", lease_seconds=60).fencing_token == token
    for _ in range(3):
        renewed = cairn.leases.renew("client/import", "one", token)
        assert renewed.expires_at > lease.expires_at
    with pytest.raises(ConflictError) as held:
        cairn.leases.acquire("client/import", "two", wait_seconds=1)
    assert (held.value.code, held.value.facts["holder"]) == ("lease_held", "one")
    assert cairn.leases.release("client/import", "one", token).holder is None
    second = cairn.leases.acquire("client/import", "two")
    assert second.fencing_token == token + 1
    for refused, code in (
        (lambda: first.workflows.ensure("leased", name="late"), "stale_lease"),
        (lambda: cairn.leases.renew("client/import", "one", token), "lease_lost"),
        (lambda: cairn.leases.release("client/import", "one", token), "lease_lost"),
    ):
        with pytest.raises(ConflictError) as lost:
            refused()
        assert (lost.value.code, lost.value.facts["current_token"]) == (code, token + 1)
    assert cairn.workflows.get("leased").name == "first"
    assert cairn.leases.get("client/import").holder == "two"
    assert "client/import" in [each.name for each in cairn.leases.list()]
