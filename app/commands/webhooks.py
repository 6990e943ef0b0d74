"""`cairn webhooks`: the key that protects their secrets, and a receiver to try them with."""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated, NoReturn

import typer

from app.client import Cairn, CairnError, ConflictError, InvalidInputError, NotFoundError
from app.commands.connection import DEFAULT_URL, Key, Tenant, Url, connected
from app.commands.plainly import refuse
from app.webhooks.signing import new_secret

app = typer.Typer(
    no_args_is_help=True,
    help="Try webhooks, and make the key that protects their secrets.",
    epilog="Example: cairn webhooks listen",
)


@app.command("new-key", epilog='Example: export CAIRN_WEBHOOKS__ENCRYPTION_KEYS="$(cairn webhooks new-key)"')
def new_key() -> None:
    """Print a new key for CAIRN_WEBHOOKS__ENCRYPTION_KEYS.

    To exchange a key, put the new one before the old, separated by a comma: the first seals, every one opens.
    """
    from app.webhooks.sealing import new_key as made  # noqa: PLC0415 - cryptography, which no other command needs

    typer.echo(made())


@app.command(epilog="Example: cairn webhooks listen --event-types 'workflow.*,invocation.ended' --body")
def listen(
    event_types: Annotated[
        str,
        typer.Option(help="Types to be told of, separated by commas; all unless given.", show_default=False),
    ] = "",
    include: Annotated[
        str, typer.Option(help="Verbatim fields to be sent too, such as input,output.", show_default=False)
    ] = "",
    body: Annotated[bool, typer.Option("--body", help="Print what is sent, too.")] = False,
    answer: Annotated[
        int, typer.Option(min=200, max=599, help="The status to answer with; 500 lets you see retries.")
    ] = 200,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = 0,
    public_url: Annotated[
        str | None,
        typer.Option(help="Where the service reaches this receiver, if that is a tunnel.", show_default=False),
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    tenant: Tenant = None,
) -> None:
    """Be told of events: print each delivery of a webhook that lasts until Ctrl-C.

    It listens on this machine, makes a webhook that leads there, and removes it at the end. Each line shows when a
    delivery came, what it tells, about what, its id and attempt, and whether the signature is the service's.
    """
    from app.commands.receiving import Receiver, receiving  # noqa: PLC0415 - no other command receives

    secret = new_secret()
    try:
        receiver = Receiver(port, secret, answer, bodies=body)
    except OSError as error:
        refuse(f"Port {port} of 127.0.0.1 cannot be listened on ({error.strerror}); choose another with --port.")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with receiving(receiver), connected(url, key, tenant) as cairn, suppress(KeyboardInterrupt):
        types = [part.strip() for part in event_types.split(",") if part.strip()]
        fields = [part.strip() for part in include.split(",") if part.strip()]
        with _webhook(cairn, public_url or receiver.url, secret, types, fields) as webhook_id:
            told = ", ".join(types) or "everything"
            typer.echo(f"Webhook {webhook_id} tells of {told} at {public_url or receiver.url} until Ctrl-C.", err=True)
            threading.Event().wait()
    typer.echo(f"Stopped; attempts received: {receiver.received}. The webhook is removed.", err=True)


@contextmanager
def _webhook(cairn: Cairn, url: str, secret: str, types: list[str], include: list[str]) -> Iterator[str]:
    """A webhook for as long as the block lasts; it ends the command where the service makes none."""
    webhook_id = f"wh_listen_{uuid.uuid4().hex[:12]}"
    try:
        cairn.webhooks.create(
            url,
            id=webhook_id,
            secret=secret,
            event_types=types,
            include=include,
            description="cairn webhooks listen; it may be deleted",
        )
    except (ConflictError, InvalidInputError) as error:
        _refuse(error, url)
    except KeyboardInterrupt:
        # It may have been made all the same.
        _remove(cairn, webhook_id)
        raise
    try:
        yield webhook_id
    finally:
        _remove(cairn, webhook_id)


def _remove(cairn: Cairn, webhook_id: str) -> None:
    try:
        with suppress(NotFoundError):
            cairn.webhooks.delete(webhook_id)
    except CairnError as error:
        refuse(f"The webhook {webhook_id} could not be removed ({error}): DELETE /v1/webhooks/{webhook_id} does it.")


def _refuse(error: CairnError, url: str) -> NoReturn:
    """End the command with what to do where the service is set up otherwise."""
    if error.code == "encryption_key_missing":
        refuse(
            "The service has no key that could protect the webhook's secret. Where it runs, set"
            ' CAIRN_WEBHOOKS__ENCRYPTION_KEYS="$(cairn webhooks new-key)" for good, and start it again;'
            " `make run` has one by itself."
        )
    if isinstance(error, InvalidInputError) and any(place.get("pointer") == "/url" for place in error.errors):
        refuse(
            f"The service sends nothing to {url}: {error.detail} Where it runs, set"
            " CAIRN_WEBHOOKS__ALLOW_PRIVATE=127.0.0.0/8 if that is this machine, and start it again (`make run` does so"
            " by itself); else give a tunnel's address with --public-url."
        )
    raise error


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
