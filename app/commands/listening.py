"""The HTTP server of `cairn dev` and `cairn serve`: its socket and its options."""

from __future__ import annotations

import errno
import ipaddress
import socket
from types import FrameType

import uvicorn

from app.commands.plainly import plainly, refuse
from app.commands.protocol import BoundedProtocol
from app.http.received import require_folder
from app.settings import Settings

APPLICATION = "app.commands.application:application"
# What remains of the grace for background jobs and connections once the last request is answered.
CLOSING_SECONDS = 2


def check_door(settings: Settings) -> None:
    """Refuse to let everybody on the network be the operator."""
    auth, host = settings.auth, settings.http.host
    if auth.mode == "off" and not auth.allow_off_anywhere and not is_loopback(host):
        refuse(
            f"CAIRN_AUTH__MODE=off would make everyone who reaches {host} the operator; listen on 127.0.0.1, use keys,"
            " or set CAIRN_AUTH__ALLOW_OFF_ANYWHERE=true."
        )


def check_room(settings: Settings) -> None:
    """Refuse to start where uploads could not be received."""
    with plainly():
        require_folder(settings.http.uploads_folder)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bound_socket(settings: Settings) -> socket.socket:
    """A socket on the address of the settings; a command ends plainly where it cannot have it."""
    host, port = settings.http.host, settings.http.port
    opened = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            refuse(
                f"Port {port} of {host} is taken, by another Cairn or another program; stop it, or choose another"
                ' with --port (make run ARGS="--port 8001").'
            )
        refuse(f"Cairn cannot listen on {host}:{port} ({error.strerror or error}); choose another --host or --port.")
    opened.set_inheritable(True)
    return opened


class PatientServer(uvicorn.Server):
    """A server that ends once, in order, within its grace, however often it is told to."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop. uvicorn itself would drop everything at a second Ctrl-C."""
        if not self.should_exit:
            super().handle_exit(sig, frame)


def server_config(settings: Settings, *, workers: int = 1) -> uvicorn.Config:
    """How uvicorn serves: its logs go through ours, and nothing of it shows in an answer."""
    http = settings.http
    return uvicorn.Config(
        APPLICATION,
        factory=True,
        host=http.host,
        port=http.port,
        workers=workers,
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=http.keep_alive_seconds,
        timeout_graceful_shutdown=max(1, http.grace_seconds - CLOSING_SECONDS),
    )


def base_url(opened: socket.socket) -> str:
    """The address to reach a bound socket at."""
    host, port = opened.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not listened on
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
