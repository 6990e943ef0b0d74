"""A large artifact up and down: what memory it costs the API process, and how fast it goes, on a folder and a bucket.

    python -m benchmarks.artifacts [--mib 1024] [--bucket-mib 128]

Exits with 1 where the process needs 64 MiB or more beyond what it had before.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from app.db.migrate import migrate
from app.embedded import start_servers
from app.settings import DatabaseSettings
from benchmarks.process import Server, forget_peak, free_port, peak_bytes, resident_bytes, serving

MIB = 1024 * 1024
EXTRA_MIB_MAX = 64
PIECE = bytes(range(256)) * (MIB // 256)


def pieces(count: int) -> Iterator[bytes]:
    """So many MiB, each another one."""
    for number in range(count):
        yield number.to_bytes(4) + PIECE[4:]


def upload(client: httpx.Client, count: int) -> None:
    """Send so many MiB. Raises `RuntimeError` where they are refused."""
    sent = client.post("/v1/artifacts", content=pieces(count))
    if not sent.is_success:
        raise RuntimeError(sent.text)


def download(client: httpx.Client, name: str) -> None:
    """Take an artifact. Raises `RuntimeError` where it is another one."""
    found = hashlib.sha256()
    with client.stream("GET", f"/v1/artifacts/{name}") as answer:
        for piece in answer.iter_bytes():
            found.update(piece)
    if found.hexdigest() != name:
        raise RuntimeError("The bytes that came are not those that were sent.")


def measured(server: Server, where: str, count: int) -> bool:
    """Send and take an artifact of so many MiB, and say what it cost; whether that is within the bound."""
    whole = hashlib.sha256()
    for piece in pieces(count):
        whole.update(piece)
    within = True
    with httpx.Client(base_url=server.url, timeout=600) as client:
        # What a first call loads is no cost of the bytes.
        upload(client, 1)
        for what in ("up", "down"):
            started = time.monotonic()
            forget_peak(server.pid)
            before = resident_bytes(server.pid)
            if what == "up":
                upload(client, count)
            else:
                download(client, whole.hexdigest())
            extra_mib = (peak_bytes(server.pid) - before) / MIB
            seconds = time.monotonic() - started
            within = within and extra_mib < EXTRA_MIB_MAX
            print(
                f"{where:7} {what:5} {count} MiB in {seconds:5.1f} s ({count / seconds:4.0f} MiB/s):"
                f" {extra_mib:5.1f} MiB more memory, {extra_mib / EXTRA_MIB_MAX:.2f} of the bound"
            )
    return within


@contextmanager
def api(database_url: str, **settings: str) -> Iterator[Server]:
    """A service that anybody may call, with these settings."""
    port = free_port()
    environment = {
        "CAIRN_DATABASE__URL": database_url, "CAIRN_AUTH__MODE": "off",
        "CAIRN_LOG__LEVEL": "ERROR", "CAIRN_BACKGROUND__ENABLED": "false",
        "CAIRN_HTTP__UPLOAD_BYTES_MAX": str(16 * 1024 * MIB),
        **{f"CAIRN_BLOBS__{name.upper()}": value for name, value in settings.items()},
    }  # fmt: skip
    with serving(["-m", "app.cli", "serve", "--port", str(port)], port, environment) as server:
        yield server


def bucket_settings(stack: ExitStack) -> dict[str, str]:
    """The settings of a bucket in moto's server, which the tests bring along."""
    from tests.blobs.s3.server import make_bucket  # noqa: PLC0415 - only where it is asked for
    from tests.blobs.s3.server import serving as moto  # noqa: PLC0415 - as above

    url = stack.enter_context(moto())
    return {
        "bucket": make_bucket(url, "artifacts"), "endpoint": url, "allow_http": "true", "access_key_id": "k",
        "secret_access_key": "s",
    }  # fmt: skip


def main() -> int:
    """Measure, and say whether the bound holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="how large the artifact is")
    # moto's server reads all of an object for each range of it, which is no measure of S3.
    parser.add_argument("--bucket-mib", type=int, default=128, help="the same in a bucket; 0: none")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cairn-artifacts-"))
    try:
        with ExitStack() as stack:
            servers = stack.enter_context(start_servers(folder / "servers", redis=False, nats=False, fast=True))
            migrate(DatabaseSettings(url=servers.postgres_url), report=lambda _line: None)
            with api(servers.postgres_url, folder=str(folder / "objects")) as server:
                within = measured(server, "folder", options.mib)
            if options.bucket_mib:
                with api(servers.postgres_url, **bucket_settings(stack)) as server:
                    within = measured(server, "bucket", options.bucket_mib) and within
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
