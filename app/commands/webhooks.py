"""`cairn webhooks`: the key that protects their secrets."""

from __future__ import annotations

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Make the key that protects the secrets of webhooks.",
    epilog="Example: cairn webhooks new-key",
)


@app.callback()
def _webhooks() -> None:
    """A group also while it has one command."""


@app.command("new-key", epilog='Example: export CAIRN_WEBHOOKS__ENCRYPTION_KEYS="$(cairn webhooks new-key)"')
def new_key() -> None:
    """Print a new key for CAIRN_WEBHOOKS__ENCRYPTION_KEYS.

    To exchange a key, put the new one before the old, separated by a comma: the first seals, every one opens.
    """
    from app.webhooks.sealing import new_key as made  # noqa: PLC0415 - cryptography, which no other command needs

    typer.echo(made())
