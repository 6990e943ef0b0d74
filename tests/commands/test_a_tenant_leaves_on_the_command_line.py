"""`cairn tenants`, as the operator types it, on a service that runs beside it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.backups.reading import Ended, Reader
from app.client import Cairn as Client
from app.client import NotFoundError
from app.signing import new_seed, public_key_of
from tests.api_process import serving
from tests.commands.test_the_operator_s_commands import Cairn
from tests.conftest import ADMIN_KEY, OBJECTS

SEED = new_seed()


async def _awaited(made: Awaitable[str]) -> str:
    return await made


def test_one_that_leaves_without_an_export_is_not_said_to_have_one(
    kept_clone: Callable[[], Awaitable[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = asyncio.run(_awaited(kept_clone()))
    with serving(url, auth__cache_seconds=0) as api:
        operator = Cairn("postgresql://nobody@127.0.0.1:1/none", COLUMNS="160")
        operator.environment |= {"CAIRN_URL": api.url, "CAIRN_KEY": ADMIN_KEY}
        client = Client(api.url, key=ADMIN_KEY)
        client.tenants.ensure("acme")
        assert "Say --yes" in operator.refuses("tenants", "delete", "acme")
        assert client.tenants.get("acme").closed_at is None
        assert "--tenant or CAIRN_TENANT" in operator.refuses("backup", "list")
        client.offboardings.begin("acme")
        said = operator.refuses("tenants", "delete", "acme", "--export", "acme.zst", "--yes")
        assert "without an export" in said
        assert not Path("acme.zst").exists()
        on_the_database = Cairn(url)
        for create in ((), ("--create-tenant",)):
            assert "on its way out" in on_the_database.refuses("keys", "create", "--tenant", "acme", *create)
        client.tenants.ensure("other")
        key = on_the_database.does("keys", "create", "--tenant", "other").strip().splitlines()[-1]
        operator.environment["CAIRN_KEY"] = key
        assert "the operator's key sees every one" in operator.refuses("tenants", "delete", "acme", "--yes")


def test_it_is_exported_removed_and_receipted(
    kept_clone: Callable[[], Awaitable[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = asyncio.run(_awaited(kept_clone()))
    with serving(
        url, background__enabled=True, signing__key=SEED, backups__idle_seconds=0.05, auth__cache_seconds=0,
        offboarding__look_seconds=0.05, offboarding__settle_seconds=0, blobs__folder=OBJECTS / url.rsplit("/", 1)[1],
    ) as api:  # fmt: skip
        operator = Cairn("postgresql://nobody@127.0.0.1:1/none", COLUMNS="160")
        operator.environment |= {"CAIRN_URL": api.url, "CAIRN_KEY": ADMIN_KEY, "CAIRN_TENANT": "acme"}
        client = Client(api.url, key=ADMIN_KEY)
        client.tenants.ensure("acme")
        Client(api.url, key=ADMIN_KEY, tenant="acme").workflows.create(id="w", metadata={"of": "acme"})
        said = operator.does("tenants", "delete", "acme", "--export", "acme.zst", "--receipt", "acme.json", "--yes")
        # Nobody sees the line that moves: each state is one of its own, once.
        assert len(re.findall(r"^off_\S+ exporting\.$", said, re.MULTILINE)) == 1, said
        with pytest.raises(NotFoundError):
            client.tenants.get("acme")
    with Path("acme.zst").open("rb") as file:
        ended = [piece for piece in Reader(file, 2**20).pieces() if isinstance(piece, Ended)]
    assert {one.name: one.rows for one in ended[0].manifest.sections}["workflows"] == 1
    receipt = Path("acme.json")
    assert json.loads(receipt.read_bytes())["receipt"]["counts"]["workflows"] == 1
    said = operator.does(
        "tenants", "verify-receipt", "acme.json", "--tenant", "acme", "--public-key", public_key_of(SEED)
    )
    assert "is as it was signed" in said
    assert "another tenant" in operator.refuses("tenants", "verify-receipt", "acme.json", "--tenant", "acme-2")
    other = public_key_of(new_seed())
    assert "not with" in operator.refuses("tenants", "verify-receipt", "acme.json", "--public-key", other)
    # The second is one as the pages show it, shortened.
    for key in ("abc", "11qYAYKxCrfVS…="):
        wrong = operator.run("tenants", "verify-receipt", "acme.json", "--public-key", key)
        assert (wrong.exit_code, "no Ed25519 public key" in wrong.output) == (2, True)
    receipt.write_bytes(receipt.read_bytes().replace(b'"workflows":1', b'"workflows":0'))
    assert "is not as it was signed" in operator.refuses("tenants", "verify-receipt", "acme.json")
    receipt.write_bytes(b"{}")
    assert "is no receipt" in operator.refuses("tenants", "verify-receipt", "acme.json")
