"""The public libraries of Standard Webhooks, as judges of what is signed here."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

JAVASCRIPT = Path(__file__).parent / "javascript"
ACCEPTED = "accepted"
REFUSED = "WebhookVerificationError: No matching signature found"


@dataclass(frozen=True)
class Signed:
    """A delivery as it arrives, and the secret with which its receiver judges it."""

    secret: str
    headers: dict[str, str]
    body: bytes

    def but(self, **changed: str) -> Signed:
        """The same with other headers, named with `_` for `-`."""
        return replace(self, headers=self.headers | {name.replace("_", "-"): value for name, value in changed.items()})


def by_python(deliveries: Sequence[Signed]) -> list[tuple[str, str]]:
    """The Python library's verdict on each, and the signature that it would make."""
    return [(_verdict(one), _signature(one)) for one in deliveries]


def _verdict(one: Signed) -> str:
    try:
        Webhook(one.secret).verify(one.body, one.headers, json_parse=False)
    except WebhookVerificationError as error:
        return f"WebhookVerificationError: {error}"
    return ACCEPTED


def _signature(one: Signed) -> str:
    at = datetime.fromtimestamp(int(one.headers["webhook-timestamp"]), UTC)
    return Webhook(one.secret).sign(one.headers["webhook-id"], at, one.body.decode())


def by_javascript(deliveries: Sequence[Signed]) -> list[tuple[str, str]]:
    """The JavaScript library's verdict on each, and the signature that it would make."""
    node = _installed()
    given = [
        {"secret": one.secret, "headers": one.headers, "body": base64.b64encode(one.body).decode()}
        for one in deliveries
    ]
    ran = subprocess.run(
        [node, "judge.js"], cwd=JAVASCRIPT, input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return [(told["verdict"], told["signature"]) for told in json.loads(ran.stdout)]


JUDGES = (by_python, by_javascript)


def _installed() -> str:
    """Installs the library from its lock, once however many test processes run, and answers where node is."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        missing = "node and npm are needed (on Debian and Ubuntu: apt-get install nodejs npm)"
        assert os.environ.get("CI") != "true", missing
        pytest.skip(missing)
    lock, modules = JAVASCRIPT / "package-lock.json", JAVASCRIPT / "node_modules"
    installed = modules / ".installed"
    with (JAVASCRIPT / ".npmrc").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        # Written last, so that an install that was cut short is begun again.
        if not installed.exists() or installed.read_bytes() != lock.read_bytes():
            subprocess.run(
                [npm, "ci", "--ignore-scripts", "--loglevel", "error"], cwd=JAVASCRIPT, timeout=240, check=True
            )
            shutil.copyfile(lock, installed)
    return node
