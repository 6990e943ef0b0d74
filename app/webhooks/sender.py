"""Sends one attempt of a delivery: bounded in time and memory, to permitted addresses alone, and never on to others."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
import structlog
from aiohttp.abc import AbstractResolver, ResolveResult

from app import __version__
from app.settings import WebhookSettings
from app.webhooks.addresses import Addresses, AddressRefused, Lookup
from app.webhooks.answers import retry_after, snippet, unpacker
from app.webhooks.bounded import bound_answers
from app.webhooks.headers import is_reserved
from app.webhooks.signing import signatures

log = structlog.get_logger()

# An answer's head may be so long, and all that frames its body. With the body that is kept, no byte more is read.
HEAD_BYTES_MAX = 131_072
# Most servers close an idle connection after 5 seconds or more.
IDLE_SECONDS = 4.0
LOOKUP_SECONDS = 10
# A connection that was kept may have been closed by the endpoint just now; then another one is tried at once.
KEPT_TRIES = 3
# Larger bodies are written in pieces, so that others have their turn.
PIECES_FROM_BYTES = 1_048_576


@dataclass(frozen=True)
class Message:
    """What to send. `headers` have passed `check_headers`; every secret signs."""

    url: str
    delivery_id: str
    body: bytes
    secrets: tuple[str, ...]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """How an attempt went.

    `status_code` is there once the endpoint answered, and decides. `error` says in words what went wrong, and is empty
    after 2xx. `response` is the beginning of the answer's body as text. `retry_after_seconds` is what it asked for.
    """

    status_code: int | None
    error: str | None
    response: str | None
    duration_ms: int
    retry_after_seconds: float | None


@dataclass
class _Seen:
    """What is known of an attempt so far; whatever ends it, this much holds."""

    is_kept: bool = False
    status_code: int | None = None
    retry_after_seconds: float | None = None
    body: bytearray = field(default_factory=bytearray)
    is_opaque: bool = False


class Sender:
    """Sends the deliveries of this process over one pool of connections."""

    def __init__(self, settings: WebhookSettings, lookup: Lookup | None = None) -> None:
        self._settings = settings
        self._addresses = Addresses(settings.allow_private, lookup)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, message: Message) -> Outcome:
        """Make one attempt; whatever happens is the outcome. Raises nothing but CancelledError."""
        begun = time.monotonic()
        seen, error = _Seen(), None
        try:
            async with asyncio.timeout(self._settings.attempt_seconds):
                await self._attempt(message, seen)
        except TimeoutError:
            error = f"No whole answer within {self._settings.attempt_seconds:g} seconds."
        except Exception as fault:  # An outcome is written down for whatever fails, or the delivery would hang.
            error = _words(fault)
            if error is None:
                error = "The attempt failed within the service; its log says why."
                log.exception("attempt failed", delivery_id=message.delivery_id)
        if seen.status_code is not None:
            is_taken = 200 <= seen.status_code < 300
            error = None if is_taken else f"The endpoint answered {seen.status_code}."
        return Outcome(
            seen.status_code,
            error,
            snippet(seen.body, seen.is_opaque) if seen.status_code is not None else None,
            int((time.monotonic() - begun) * 1000),
            seen.retry_after_seconds,
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _attempt(self, message: Message, seen: _Seen) -> None:
        target = self._addresses.target(message.url)
        headers = _headers(message)
        for tries_left in reversed(range(KEPT_TRIES)):
            seen.is_kept = False
            body = io.BytesIO(message.body) if len(message.body) > PIECES_FROM_BYTES else message.body
            try:
                async with self._opened().post(
                    target.url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=seen
                ) as answer:
                    await self._read(answer, seen)
                return
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as fault:
                is_dial = isinstance(fault, aiohttp.ClientConnectorError)
                if is_dial or not seen.is_kept or seen.status_code is not None or not tries_left:
                    raise

    async def _read(self, answer: aiohttp.ClientResponse, seen: _Seen) -> None:
        """Read the answer as far as it is kept; a longer one costs its connection."""
        seen.status_code = answer.status
        seen.retry_after_seconds = retry_after(answer.headers.get("Retry-After", ""), time.time())
        most = self._settings.response_bytes_max
        unpack = unpacker(answer.headers.get("Content-Encoding", ""))
        seen.is_opaque = unpack is None
        while piece := await answer.content.readany():
            if unpack is not None:
                seen.body += unpack(piece, most + 1 - len(seen.body))
            if len(seen.body) > most:
                del seen.body[most:]
                answer.close()
                return

    def _opened(self) -> aiohttp.ClientSession:
        """The session, made within the loop at the first use."""
        if self._session is None:
            tls = ssl.create_default_context()
            tls.set_alpn_protocols(("http/1.1",))
            connector = aiohttp.TCPConnector(
                ssl=tls,
                resolver=_Resolver(self._addresses),
                ttl_dns_cache=LOOKUP_SECONDS,
                limit=0,
                keepalive_timeout=IDLE_SECONDS,
            )
            bound_answers(connector, HEAD_BYTES_MAX + self._settings.response_bytes_max)
            self._session = aiohttp.ClientSession(
                connector=connector,
                trust_env=False,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                max_field_size=HEAD_BYTES_MAX,
                trace_configs=[_noting_kept_connections()],
            )
        return self._session


class _Resolver(AbstractResolver):
    """Gives a connector the addresses that were judged, and no others: what is dialled is what was checked."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002 - addresses of both families are tried
    ) -> list[ResolveResult]:
        """The addresses of a name. Raises OSError, `AddressRefused` where one of them must not be dialled."""
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in await self._addresses.addresses_of(host, port)
        ]

    async def close(self) -> None:
        """Nothing is held."""


def _noting_kept_connections() -> aiohttp.TraceConfig:
    """Lets an attempt know that its connection had been used before."""

    async def note(_session: aiohttp.ClientSession, context: object, _params: object) -> None:
        seen = getattr(context, "trace_request_ctx", None)
        if isinstance(seen, _Seen):
            seen.is_kept = True

    noting = aiohttp.TraceConfig()
    noting.on_connection_reuseconn.append(note)
    return noting


def _headers(message: Message) -> dict[str, str]:
    timestamp = int(time.time())
    # They were checked when they were saved, and here once more: one of them could send the rest elsewhere.
    headers = {name: value for name, value in message.headers.items() if not is_reserved(name)}
    headers["Content-Type"] = "application/json"
    headers["User-Agent"] = f"cairn/{__version__}"
    headers["Accept-Encoding"] = "identity"
    headers["webhook-id"] = message.delivery_id
    headers["webhook-timestamp"] = str(timestamp)
    headers["webhook-signature"] = signatures(message.secrets, message.delivery_id, timestamp, message.body)
    return headers


def _words(fault: Exception) -> str | None:
    """What went wrong, for the owner of the webhook; None for what cannot be explained to him.

    The text of the fault itself is not passed on: it may name addresses of an inner network.
    """
    cause = fault.os_error if isinstance(fault, aiohttp.ClientConnectorError) else fault
    number = cause.errno if isinstance(cause, OSError) else None
    match fault:
        case _ if isinstance(cause, AddressRefused):
            return f"Not sent: the URL {cause}."
        case aiohttp.ClientConnectorDNSError():
            return "The name of the host was not found."
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(fault.certificate_error, "verify_message", "") or "it is for another name"
            return f"The certificate of the endpoint was not accepted: {why}."
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return "The endpoint does not speak TLS as it should."
        case aiohttp.ClientConnectorError():
            return f"No connection: {os.strerror(number) if number else 'the endpoint cannot be reached'}."
        case aiohttp.ServerDisconnectedError():
            return "The endpoint closed the connection without an answer."
        case aiohttp.ClientResponseError():
            return "What the endpoint answered is not HTTP, or has too large a head."
        case aiohttp.ClientError() | OSError():
            return "The connection to the endpoint broke."
        case ValueError():
            return "The headers or the secret of the webhook cannot be sent."
    return None
