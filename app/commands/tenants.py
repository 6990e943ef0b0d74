"""`cairn tenants`: a tenant that leaves, and the receipt for it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from app.client import Cairn
from app.client.offboardings import Offboarding
from app.commands.connection import DEFAULT_URL, Key, Url, connected
from app.commands.downloading import downloaded
from app.commands.following import FIRST_PAUSE_SECONDS, PAUSE_MAX_SECONDS, why
from app.commands.plainly import refuse
from app.commands.trusting import PublicKeys

app = typer.Typer(
    no_args_is_help=True,
    help="Remove a tenant with everything that is its own, and verify the receipt.",
    epilog="Example: cairn tenants delete acme --export acme.ndjson.zst --receipt acme.json",
)
# Of these there is nothing to wait for: somebody has to say what is to happen.
ENDS = ("exported", "failed", "completed")


@app.command(epilog="Example: cairn tenants delete acme --export acme.ndjson.zst --receipt acme.json")
def delete(
    tenant_id: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's id.")],
    export: Annotated[
        Path | None, typer.Option(help="First download everything into this file.", show_default=False)
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(help="Where the receipt goes. Default: standard output.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Close a tenant, remove everything that is its own, and wait for the receipt. With the operator's key.

    From the first moment nobody acts for the tenant. It takes minutes: everything is looked for once more after a
    pause. Ctrl-C ends only the waiting; the same command goes on with it.
    """
    for file in (export, receipt):
        if file is not None and file.exists():
            refuse(f"{file} is there already; name another file.")
    if not yes:
        _ask(tenant_id)
    with connected(url, key, None) as cairn:
        offboarding = cairn.offboardings.begin(tenant_id, export=export is not None)
        if export is not None and offboarding.export is None:
            refuse(f"{tenant_id} leaves already, without an export; run it again without --export to wait for that.")
        offboarding = _followed(cairn, offboarding)
        if offboarding.state in ("exported", "failed"):
            _exported(cairn, offboarding, export)
            offboarding = _followed(cairn, cairn.offboardings.confirm(offboarding.id))
        content = cairn.offboardings.receipt(offboarding.id)
    if receipt is None:
        typer.echo(content)
    else:
        receipt.write_bytes(content)
    typer.echo(f"{tenant_id} has left: {_gone(offboarding)} rows, objects, values and messages.", err=True)


def _ask(tenant_id: str) -> None:
    gone = f"Everything of {tenant_id} will be gone."
    if not sys.stdin.isatty():
        refuse(f"{gone} Say --yes.")
    if typer.prompt(f"{gone} Its id, to go on", err=True) != tenant_id:
        refuse("That is another id; nothing has happened.")


def _exported(cairn: Cairn, offboarding: Offboarding, file: Path | None) -> None:
    made: dict[str, Any] = offboarding.export or {}
    cancel = f"`cairn tenants cancel {offboarding.id}` opens the tenant again."
    if offboarding.state == "failed":
        refuse(f"It could not be exported ({why(made.get('error'))}) {cancel}")
    if file is None:
        refuse(f"Its export waits to be confirmed: name a file with --export, to have it there first, or {cancel}")
    size = int(made["size_bytes"])
    downloaded(
        file, size, made["digest"], lambda start: cairn.offboardings.download(offboarding.id, start=start, end=size)
    )


def _followed(cairn: Cairn, offboarding: Offboarding) -> Offboarding:
    pause, console = FIRST_PAUSE_SECONDS, Console(stderr=True)
    last = ""
    try:
        with console.status("", spinner="line") as shown:
            while offboarding.state not in ENDS:
                held_up = f" It waits: {why(offboarding.error)}" if offboarding.error else ""
                shown.update(f"{offboarding.id} {offboarding.state}, {_gone(offboarding):,} gone.{held_up}")
                told = f"{offboarding.id} {offboarding.state}.{held_up}"
                if not console.is_terminal and told != last:
                    # Nobody sees the line that moves, and it takes minutes.
                    typer.echo(told, err=True)
                    last = told
                time.sleep(pause)
                pause = min(pause * 1.5, PAUSE_MAX_SECONDS)
                offboarding = cairn.offboardings.get(offboarding.id)
    except KeyboardInterrupt:
        typer.echo(f"The service goes on with {offboarding.id}.", err=True)
        raise
    return offboarding


def _gone(offboarding: Offboarding) -> int:
    return sum(offboarding.counts.values())


@app.command(epilog="Example: cairn tenants cancel off_0198")
def cancel(
    offboarding_id: Annotated[str, typer.Argument(metavar="ID", help="The offboarding's id.")],
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Open a tenant again, while its export is made or waits to be confirmed."""
    with connected(url, key, None) as cairn:
        cairn.offboardings.cancel(offboarding_id)
    typer.echo(f"{offboarding_id} is cancelled; its tenant is open again.")


@app.command("verify-receipt", epilog="Example: cairn tenants verify-receipt acme.json --tenant acme")
def verify_receipt(
    file: Annotated[Path, typer.Argument(help="The receipt, byte for byte as it came.")],
    tenant: Annotated[str | None, typer.Option(help="The tenant that it must be for.", show_default=False)] = None,
    public_key: PublicKeys = None,
) -> None:
    """Say whether a receipt is as it was signed, without any service. Status 1 where it is not."""
    from app.offboarding.receipt import read, tenant_sha256  # noqa: PLC0415 - cryptography

    try:
        said, signed_with, holds = read(file.read_bytes())
    except OSError as error:
        refuse(f"{file} cannot be read: {(error.strerror or type(error).__name__).lower()}.")
    except ValueError:
        refuse(f"{file} is no receipt.")
    if signed_with is None:
        refuse(f"{file} is not signed, so nobody vouches for it.")
    if not holds:
        refuse(f"{file} is not as it was signed.")
    if public_key and signed_with not in public_key:
        refuse(f"{file} is signed with {signed_with}, not with {' or '.join(public_key)}.")
    if tenant is not None and said.get("tenant_sha256") != tenant_sha256(tenant):
        refuse(f"{file} is the receipt of another tenant than {tenant}.")
    typer.echo(f"{file} is as it was signed, with {signed_with}")
    typer.echo(
        f"From {said.get('started_at')} to {said.get('ended_at')}: {sum(said.get('counts', {}).values()):,} gone."
    )
