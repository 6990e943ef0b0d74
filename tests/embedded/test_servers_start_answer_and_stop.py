"""The ordinary life of the embedded servers: start, answer, stop, and find everything again."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import nats
import psutil
import pytest
import redis.asyncio

from app.embedded import Servers, start_servers


def urls(servers: Servers) -> list[str]:
    return [servers.postgres_url, servers.nats_url, servers.redis_url]


async def test_all_three_servers_answer_when_start_returns(tmp_path: Path) -> None:
    with start_servers(tmp_path, ephemeral=True, fast=True) as servers:
        connection = await asyncpg.connect(servers.postgres_url)
        await connection.execute("CREATE EXTENSION vector")
        version, collation, encoding = await connection.fetchrow(
            "SELECT current_setting('server_version_num')::int, datlocale, pg_encoding_to_char(encoding) "
            "FROM pg_database WHERE datname = current_database()"
        )
        await connection.close()
        client = await nats.connect(servers.nats_url)
        await client.jetstream().add_stream(name="tried", subjects=["tried.>"])
        await client.jetstream().publish("tried.once", b"1")
        await client.close()
        cache = redis.asyncio.from_url(servers.redis_url)
        await cache.set("key", "value")
        answer = await cache.get("key")
        await cache.aclose()

    assert version >= 160000
    assert (collation, encoding, answer) == ("C.UTF-8", "UTF8", b"value")


def test_stop_ends_every_process_closes_every_port_and_may_be_called_again(tmp_path: Path) -> None:
    servers = start_servers(tmp_path, fast=True)
    pids = servers.pids()

    servers.stop()
    servers.stop()

    assert sorted(pids) == ["NATS", "PostgreSQL", "Valkey"]
    assert not [pid for pid in pids.values() if psutil.pid_exists(pid)]
    for url in urls(servers):
        with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
            probe.connect(("127.0.0.1", urlsplit(url).port))


async def test_a_second_start_finds_the_data_the_password_and_the_ports(tmp_path: Path) -> None:
    with start_servers(tmp_path) as first:
        connection = await asyncpg.connect(first.postgres_url)
        await connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        await connection.close()
        client = await nats.connect(first.nats_url)
        await client.jetstream().add_stream(name="kept", subjects=["kept"])
        await client.close()
        cache = redis.asyncio.from_url(first.redis_url)
        await cache.set("kept", "42")
        await cache.aclose()

    with start_servers(tmp_path) as second:
        connection = await asyncpg.connect(second.postgres_url)
        in_postgres = await connection.fetchval("SELECT answer FROM kept")
        await connection.close()
        client = await nats.connect(second.nats_url)
        in_nats = (await client.jetstream().stream_info("kept")).config.name
        await client.close()
        cache = redis.asyncio.from_url(second.redis_url)
        in_valkey = await cache.get("kept")
        await cache.aclose()

    assert (in_postgres, in_nats, in_valkey) == (42, "kept", b"42")
    assert urls(second) == urls(first)


def test_an_ephemeral_start_keeps_nothing_and_leaves_kept_data_alone(tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    with start_servers(fresh, ephemeral=True, fast=True):
        assert fresh.exists()
    assert not fresh.exists()

    with start_servers(tmp_path / "kept", postgres=False, fast=True):
        pass
    before = sorted(path.name for path in (tmp_path / "kept").iterdir())
    with start_servers(tmp_path / "kept", ephemeral=True, fast=True, postgres=False):
        pass
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == before


async def test_the_servers_listen_on_loopback_only_and_ask_for_the_password(tmp_path: Path) -> None:
    with start_servers(tmp_path, ephemeral=True, fast=True) as servers:
        listening = {
            connection.laddr.ip
            for pid in servers.pids().values()
            for connection in psutil.Process(pid).net_connections()
            if connection.status == psutil.CONN_LISTEN
        }
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(servers.postgres_url, password="guess")
        with pytest.raises(redis.exceptions.AuthenticationError):
            await redis.asyncio.from_url(servers.redis_url.replace("redis://:", "redis://:not-")).ping()
        with pytest.raises(nats.errors.Error):
            await nats.connect(servers.nats_url, user="cairn", password="guess", allow_reconnect=False)

    assert listening == {"127.0.0.1"}


def test_only_the_parts_asked_for_are_started(tmp_path: Path) -> None:
    with start_servers(tmp_path, ephemeral=True, postgres=False, redis=False) as servers:
        assert (servers.postgres_url, servers.redis_url) == ("", "")
        assert list(servers.pids()) == ["NATS"]
        assert servers.ended_part() is None
