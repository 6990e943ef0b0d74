"""Secrets of a controller are in no table, cache, stream, log or file of the service, whoever stored them and when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import nats
import pytest
import redis.asyncio as redis

from app.embedded import Servers
from cairn_supervaizer import CairnStorage, Options, install
from cairn_supervaizer.__main__ import main
from cairn_supervaizer.secrecy import cut, paths_by_type
from tests.api_process import ApiProcess, serving
from tests.backups.files import text_of
from tests.supervaizer import entities
from tests.supervaizer.conftest import Controllers, key_of_new_tenant
from tests.waiting import eventually

SECRET = "canary-7f3a"
SEEN = "seen-by-everybody"
# Words that are put where the secret must not be, one for each kind of key.
CONTROL = {kind: f"word-of-control-{kind}" for kind in ("string", "hash", "list", "set", "zset", "stream", "message")}
JSON = {"content-type": "application/json"}
SCOPES = (
    "documents:read", "documents:write", "webhooks:write", "webhooks:read", "events:read", "backups:read",
    "backups:write",
)  # fmt: skip
MORE = {"Job": ("/metadata/token",), "Case": ("/updates/*/payload/password",), "Note": ("/0~1a/*/b~0c",)}


async def rows(url: str) -> str:
    """Every row of every table."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "SELECT c.oid::regclass::text AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
            " WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
        )
        found = [await connection.fetch(f"SELECT t::text AS row FROM {one['name']} AS t") for one in tables]
        return "\n".join(row["row"] for table in found for row in table)
    finally:
        await connection.close()


async def keys(url: str) -> str:
    """Every key of Valkey with what is under it; each kind is read by its own command, since a dump is packed."""
    client = redis.Redis.from_url(url)
    readers = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"stream": client.xrange,
    }
    found: list[Any] = []
    try:
        async for key in client.scan_iter(count=1000):
            kind = await client.type(key)
            if kind != b"none":  # It expired while it was being read.
                found.append((key, await readers[kind](key)))
    finally:
        await client.aclose()
    return repr(found)


async def put_words_of_control(servers: Servers) -> None:
    """Let there be a word in a key of every kind, and in a message: whoever looks for secrets there must find it."""
    async with redis.Redis.from_url(servers.redis_url) as client:
        await client.set("control:1", CONTROL["string"])
        await client.hset("control:2", "field", CONTROL["hash"])
        await client.rpush("control:3", CONTROL["list"])
        await client.sadd("control:4", CONTROL["set"])
        await client.zadd("control:5", {CONTROL["zset"]: 1})
        await client.xadd("control:6", {"field": CONTROL["stream"]})
        for number in range(1, 7):
            await client.expire(f"control:{number}", 600)
    speaker = await nats.connect(servers.nats_url)
    await speaker.publish("control", CONTROL["message"].encode())
    await speaker.close()


@asynccontextmanager
async def overheard(url: str) -> AsyncIterator[list[bytes]]:
    """Every message on NATS, those that streams take among them."""
    client = await nats.connect(url)
    heard: list[bytes] = []

    async def hear(message: Any) -> None:
        heard.append(f"{message.subject} {message.headers} ".encode() + message.data)

    await client.subscribe(">", cb=hear)
    await client.flush()
    try:
        yield heard
        await client.flush()
    finally:
        await client.close()


def files(api: ApiProcess) -> str:
    """What the process has written, its log among it."""
    folder = Path(api._folder.name)
    return "".join(one.read_bytes().decode(errors="replace") for one in folder.rglob("*") if one.is_file())


async def backup(client: httpx.AsyncClient) -> str:
    """The text of a backup of all that the tenant has, with the revisions of its documents."""
    asked = await client.post("/v1/backups", json={})
    assert asked.status_code == 202, asked.text
    path = f"/v1/backups/{asked.json()['id']}"

    async def is_made() -> bool:
        return (await client.get(path)).json()["state"] == "completed"

    await eventually(is_made, "the backup")
    return text_of((await client.get(f"{path}/content")).content).decode()


def one_that_knew_no_better(url: str, key: str) -> None:
    """What a controller without the adapter's rules has stored, revisions too."""
    before = {"id": "job_0", "name": SEEN, "agent_name": "a", "agent_parameters": [{"name": "k", "value": SECRET}]}
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}) as client:
        assert client.put("/v1/documents/supervaizer%2Fdefault%2FJob", json={"history": 5}).status_code == 201
        for number in range(3):
            answer = client.put("/v1/documents/supervaizer%2Fdefault%2FJob/job_0", json=before | {"n": number})
            assert answer.status_code in (200, 201)
    # One that knows better takes over.
    CairnStorage(Options(url, key, secret_paths=MORE, history=5)).close()


def controller(url: str, key: str) -> None:
    """What a controller does, with a secret wherever one can be."""
    installed = install(url, key, secret_paths=MORE, history=5)
    try:
        job = entities.job(agent_parameters=[{"name": "k", "value": SECRET}], metadata={"token": SECRET, "name": SEEN})
        case = entities.case(account=entities.account(SECRET))
        case.update_sync(entities.CaseNodeUpdate(name="Log in", payload={"password": SECRET, "user": SEEN}))
        job.add_case_id("another")
        installed.storage.save_object("Job", job.to_dict | {"agent_parameters": [{"value": SECRET}]})
        with httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}) as client:
            # Another client, which cuts nothing itself.
            stored = {"id": "c", "account": {"api_key": SECRET}, "updates": [{"payload": {"password": SECRET}}]}
            path = "/v1/documents/supervaizer%2Fdefault%2FCase/c"
            for _ in range(2):
                answer = client.put(path, json=stored, headers={"idempotency-key": "k1"})
                assert answer.status_code == 201
            assert client.patch(path, json={"account": {"api_key": SECRET}}).status_code == 200
            # What is refused may be told of, in answers and in the log.
            for wrong in (f'{{"api_key": "{SECRET}"', f'{{"api_key": "{SECRET}", "api_key": 1}}', f'["{SECRET}"]'):
                assert SECRET not in client.patch(f"{path}?merge=shallow", content=wrong, headers=JSON).text
    finally:
        installed.uninstall()


async def test_a_canary_is_found_nowhere(
    servers: Servers, clone: Callable[[], Awaitable[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    database = await clone()
    parts = {"redis__url": servers.redis_url, "nats__url": servers.nats_url, "nats__stream_prefix": "canary"}
    async with overheard(servers.nats_url) as heard:
        with serving(database, log__level="DEBUG", background__enabled=True, **parts) as api:
            key = key_of_new_tenant(api.url, *SCOPES)
            async with httpx.AsyncClient(base_url=api.url, headers={"authorization": f"Bearer {key}"}) as client:
                await asyncio.to_thread(one_that_knew_no_better, api.url, key)
                # Whoever is told of documents is told of them as they are stored. Nobody listens there.
                hook = {"url": "http://127.0.0.1:9/", "event_types": ["document.*"], "include": ["body"]}
                assert (await client.post("/v1/webhooks", json=hook)).status_code == 201
                await asyncio.to_thread(controller, api.url, key)
                dump = tmp_path / "entities.json"
                row = {"id": "job_9", "name": SEEN, "agent_name": "a", "status": "failed", "agent_parameters": [SECRET]}
                dump.write_text(json.dumps({"Job": {"1": row | {"metadata": {"token": SECRET}}}}))
                monkeypatch.setenv("CAIRN_API_KEY", key)
                asked = ["import", str(dump), "--url", api.url, "--secret-path", "Job:/metadata/token"]
                assert await asyncio.to_thread(main, asked) == 0

                async def told() -> bool:
                    events = (await client.get("/v1/events?type=document.created&include=body")).json()["items"]
                    tried = (await client.get("/v1/deliveries?include=body")).json()["items"]
                    return len(events) >= 5 and any(one["attempt_count"] for one in tried)

                await eventually(told, "an attempt of a delivery")
                for path in ("Job/query", "Case/query"):
                    answer = await client.post(
                        f"/v1/documents/supervaizer%2Fdefault%2F{path}", json={"include": ["body"]}
                    )
                    assert SECRET not in answer.text
                await put_words_of_control(servers)
                places = {"backup": await backup(client)}
                places |= {"tables": await rows(database), "keys": await keys(servers.redis_url)}

            async def came() -> bool:
                said = b" ".join(heard)
                return b"document" in said and CONTROL["message"].encode() in said

            await eventually(came, "a message about a document, and the word of control")
            places |= {"messages": repr(heard), "files": files(api), "output": "".join(capsys.readouterr())}
    # It would be found: what is no secret is.
    assert SEEN in places["tables"]
    assert SEEN in places["backup"]
    assert "Cairn serves" in places["files"]
    assert "Imported 1 (Job 1)" in places["output"]
    everything = places["keys"] + places["messages"]
    assert [kind for kind, word in CONTROL.items() if word not in everything] == []
    for place, content in places.items():
        for written in (SECRET, SECRET.encode().hex()):
            assert written not in content, f"in the {place}: {content[max(0, content.index(written) - 200) :][:400]}"


def test_they_do_not_leave_the_process_also_where_the_service_has_no_rules(controllers: Controllers) -> None:
    storage = controllers.storage(secret_paths=MORE)
    with httpx.Client(base_url=controllers.urls[0], headers={"authorization": f"Bearer {controllers.key}"}) as client:
        for kind in ("Job", "Case"):
            answer = client.put(f"/v1/documents/supervaizer%2Fdefault%2F{kind}", json={"secret_paths": []})
            assert answer.status_code == 200
    storage.save_object("Job", {"id": "j", "agent_parameters": [SECRET], "metadata": {"token": SECRET, "n": 1}})
    storage.save_object("Case", {"id": "c", "account": {"api_key": SECRET}})
    storage.save_object("Case", {"id": "c", "account": {"api_key": SECRET, "workspace_id": "ws_1"}})
    assert storage.get_objects("Job") == [{"id": "j", "metadata": {"n": 1}}]
    assert storage.get_objects("Case") == [{"id": "c", "account": {"workspace_id": "ws_1"}}]


def test_what_lies_at_a_path_is_cut_and_nothing_else() -> None:
    paths = paths_by_type({"Note": ["/0~1a/*/b~0c", "/list/1", "/gone/on"], "Job": ["/agent_parameters"]})
    note = {"0/a": {"x": {"b~c": 1, "d": 2}, "y": {"d": 3}, "z": [{"b~c": 1}]}, "list": [1, {"s": 1}, 3], "gone": None}
    cut(note, paths["Note"])
    assert note == {"0/a": {"x": {"d": 2}, "y": {"d": 3}, "z": [{"b~c": 1}]}, "list": [1, None, 3], "gone": None}
    assert paths["Job"] == ("/agent_parameters",)


@pytest.mark.parametrize("wrong", [{"Job": "/a"}, {"Job": ["a"]}, {"Job": [""]}])
def test_a_path_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="Pointer"):
        paths_by_type(wrong)
