"""`cairn keys`: API keys, for the operator, straight on the database."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app.commands.beside import Folder, operator_settings
from app.commands.operating import EVERY_SCOPE, keys_of, make_key, operating, tell, tenant_exists
from app.commands.plainly import refuse, run
from app.errors import Unavailable
from app.http.caller import SCOPE, TENANT_ID
from app.settings import DatabaseSettings, Settings
from app.tenants import store
from app.tenants.keys import DEFAULT_TENANT, key_of

app = typer.Typer(
    no_args_is_help=True,
    help="Make, list and revoke API keys, straight on the database.",
    epilog="Example: cairn keys create --name worker, then cairn keys list",
)
COLUMNS = ("tenant", "id", "name", "key", "scopes", "last used", "state")
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant that the key acts for.")]


@app.command(epilog="Example: cairn keys create --tenant acme --create-tenant --name worker --scope '*:read'")
def create(
    tenant: Tenant = DEFAULT_TENANT,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "operator",
    scope: Annotated[
        list[str] | None, typer.Option(help="A scope, such as invocations:write; repeat it. Default: everything.")
    ] = None,
    expires_in_days: Annotated[int | None, typer.Option(min=1, max=36500, help="Default: it does not expire.")] = None,
    create_tenant: Annotated[bool, typer.Option("--create-tenant", help="Make the tenant if it is not there.")] = False,
    folder: Folder = None,
) -> None:
    """Make a key and print it, this once. The key alone goes to standard output."""
    scopes = scope or list(EVERY_SCOPE)
    for given in scopes:
        if not re.fullmatch(SCOPE, given):
            refuse(f"{given!r} is no scope; write it as invocations:write, *:read or admin.")
    if not re.fullmatch(TENANT_ID, tenant):
        refuse(f"{tenant!r} is no tenant id; it is 1 to 64 of a-z, 0-9, _ and -.")
    expires_at = datetime.now(UTC) + timedelta(days=expires_in_days) if expires_in_days else None
    key, row = run(_create(operator_settings(folder).database, tenant, create_tenant, (name, scopes, expires_at)))
    typer.echo(f"Key {row['id']} of tenant {tenant}, scopes {', '.join(scopes)}. It is shown this once:", err=True)
    typer.echo(key)


async def _create(
    settings: DatabaseSettings, tenant: str, create_tenant: bool, key: tuple[str, list[str], datetime | None]
) -> tuple[str, dict[str, Any]]:
    async with operating(settings) as database:
        await store.require_staying(database, tenant)
        if create_tenant:
            await store.ensure(database.once(""), tenant, tenant)
        elif not await tenant_exists(database, tenant):
            refuse(f"There is no tenant {tenant}; add --create-tenant to make it.")
        return await make_key(database, tenant, *key)


@app.command(epilog='Example: export CAIRN_SIGNING__KEY="$(cairn keys signing)"')
def signing() -> None:
    """Print a new key for CAIRN_SIGNING__KEY, which signs backups and receipts. Its public key goes to standard error.

    The service tells the public key in GET /v1/capabilities, too.
    """
    from app.signing import new_seed, public_key_of  # noqa: PLC0415 - cryptography, which no other command needs

    seed = new_seed()
    typer.echo(f"Its public key: {public_key_of(seed)}", err=True)
    typer.echo(seed)


@app.command("list", epilog="Example: cairn keys list --tenant acme")
def list_keys(
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant's keys. Default: all.")] = None,
    folder: Folder = None,
) -> None:
    """List keys, without their secrets."""
    listed = [_told(row) for row in run(_list(operator_settings(folder).database, tenant))]
    table = Table(*COLUMNS, box=None)
    for told in listed:
        table.add_row(*(Text(told[column]) for column in COLUMNS))
    console = Console(highlight=False)
    # Without a height, rich takes a dumb terminal for 80 columns whatever the width says.
    wide = Console(highlight=False, width=4000, height=25)
    if not console.is_terminal or wide.measure(table).maximum <= console.width:
        wide.print(table, soft_wrap=True)
        return
    # Ids are for copying: a terminal too narrow for the table gets lines instead, which cut nothing.
    for told in listed:
        console.print(Text(f"{told['id']}  {told['state']}"), soft_wrap=True)
        rest = [f"{column} {told[column]}" for column in COLUMNS if column not in ("id", "state")]
        console.print(Padding(Text(", ".join(rest)), (0, 0, 0, 2)))


async def _list(settings: DatabaseSettings, tenant: str | None) -> list[Any]:
    async with operating(settings) as database:
        return await keys_of(database, tenant)


def _told(row: Any) -> dict[str, str]:
    used = f"{row['last_used_at']:%Y-%m-%d %H:%M}Z" if row["last_used_at"] else "never"
    scopes = " ".join(row["scopes"])
    told = (row["tenant_id"], row["id"], row["name"], row["key_hint"], scopes, used, _state(row))
    return dict(zip(COLUMNS, told, strict=True))


def _state(row: Any) -> str:
    if row["revoked_at"]:
        return "revoked"
    if row["expires_at"] and row["expires_at"] <= datetime.now(UTC):
        return "expired"
    return f"until {row['expires_at']:%Y-%m-%d}" if row["expires_at"] else "active"


@app.command(epilog="Example: cairn keys revoke key_0198 --tenant acme")
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The id that `cairn keys list` shows.")],
    tenant: Tenant = DEFAULT_TENANT,
    folder: Folder = None,
) -> None:
    """Revoke a key. Every process stops trusting it at once where NATS tells it, else within a second.

    The second is CAIRN_AUTH__CACHE_SECONDS of those processes.
    """
    told = run(_revoke(operator_settings(folder), tenant, key_id))
    typer.echo(f"Revoked {key_id} of tenant {tenant}. {told}")


async def _revoke(settings: Settings, tenant: str, key_id: str) -> str:
    """Revoke the key, and say when that holds."""
    async with operating(settings.database) as database:
        await store.revoke_key(database.once(tenant), tenant, key_id)
    try:
        await tell(settings.nats, key_of(tenant))
    except Unavailable as refusal:
        return f"No process was told, so each trusts it for its CAIRN_AUTH__CACHE_SECONDS at most: {refusal.detail}"
    return "Every process has been told."
