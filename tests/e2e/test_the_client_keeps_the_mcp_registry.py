"""The client's calls about MCP servers and their users against the running service."""

from __future__ import annotations

import pytest

from app.client import AsyncCairn, Cairn, ConflictError, InvalidInputError, NotFoundError, PreconditionFailedError
from app.client.mcp import McpToolFields
from app.client.mcp_configs import McpConfigItem
from tests.e2e.conftest import Served


async def test_servers_in_both_modes(served: Served, cairn: Cairn) -> None:
    made = cairn.mcp_servers.create(id="s/1", publisher_id="org", slug="search", display_name="Search")
    assert (made.id, made.visibility, made.homepage_url) == ("s/1", "private", None)
    again = cairn.mcp_servers.create(id="s/1", publisher_id="org", slug="search", display_name="Search")
    assert again.reply is not None
    assert (again.reply.status, again.created_at) == (200, made.created_at)
    with pytest.raises(ConflictError, match="mcp_slug_taken"):
        cairn.mcp_servers.create(publisher_id="org", slug="search", display_name="Other")
    patched = cairn.using(if_match=made.etag).mcp_servers.patch("s/1", visibility="public", repo_url="https://a.test")
    assert (patched.visibility, patched.repo_url) == ("public", "https://a.test")
    with pytest.raises(PreconditionFailedError):
        cairn.using(if_match=made.etag).mcp_servers.delete("s/1")
    async with AsyncCairn(served.url, key=served.key) as other:
        second = await other.mcp_servers.create(publisher_id="org", slug="files", display_name="Files")
        listed = other.mcp_servers.list(publisher_id="org", visibility=["public", "private"], limit=1)
        assert [one.id async for one in listed] == [second.id, "s/1"]
        assert [one.id async for one in other.mcp_servers.list(q="fil")] == [second.id]
        await other.mcp_servers.delete(second.id)
        with pytest.raises(NotFoundError):
            await other.mcp_servers.get(second.id)
        assert (await other.mcp_servers.get("s/1")).updated_at == patched.updated_at


async def test_versions_and_tools_until_their_release(served: Served, cairn: Cairn) -> None:
    cairn.mcp_servers.create(id="s/1", publisher_id="org", slug="search", display_name="Search")
    made = cairn.mcp_versions.create("s/1", id="v/1", version="1.0", capabilities={"tools": {"listChanged": True}})
    assert (made.server_id, made.status, made.released_at) == ("s/1", "draft", None)
    assert made.capabilities == {"tools": {"listChanged": True}}
    tool = cairn.mcp_tools.add("s/1", "v/1", name="a/b", input_schema={"type": "object"}, annotations={"n": 1})
    assert (tool.name, tool.version_id, tool.annotations, tool.active) == ("a/b", "v/1", {"n": 1}, True)
    async with AsyncCairn(served.url, key=served.key) as other:
        more: list[McpToolFields] = [{"name": name, "input_schema": {}, "active": False} for name in ("d", "c")]
        assert [one.name for one in await other.mcp_tools.add_many("s/1", "v/1", more)] == ["d", "c"]
        assert [one.name async for one in other.mcp_tools.list("s/1", "v/1", limit=2)] == ["a/b", "c", "d"]
        assert [one.name async for one in other.mcp_tools.list("s/1", "v/1", active=True)] == ["a/b"]
        await other.mcp_tools.delete("s/1", "v/1", "d")
    assert cairn.mcp_tools.get("s/1", "v/1", "a/b").input_schema == {"type": "object"}
    released = cairn.using(if_match=made.etag).mcp_versions.patch("s/1", "v/1", status="released")
    assert released.released_at is not None
    with pytest.raises(ConflictError) as frozen:
        cairn.mcp_versions.patch("s/1", "v/1", source_ref="main")
    assert frozen.value.facts["frozen_fields"] == ["source_ref"]
    with pytest.raises(ConflictError, match="mcp_version_released"):
        cairn.mcp_tools.add("s/1", "v/1", name="e", input_schema={})
    draft = cairn.mcp_versions.create("s/1", version="2.0", listed=False)
    assert [one.id for one in cairn.mcp_versions.list("s/1", status=["draft", "released"])] == [draft.id, "v/1"]
    assert [one.id for one in cairn.mcp_versions.list("s/1", version="1.0", listed=True)] == ["v/1"]
    cairn.mcp_versions.delete("s/1", draft.id)
    assert cairn.mcp_versions.get("s/1", "v/1").status == "released"


async def test_configurations_one_at_a_time(served: Served, cairn: Cairn) -> None:
    cairn.mcp_servers.create(id="s/1", publisher_id="org", slug="search", display_name="Search")
    config = {"command": "npx", "env": {"API_KEY": {"secret_ref": "search"}}}
    made = cairn.mcp_configs.create(id="c/1", user_id="ann", name="own", config=config)
    assert (made.config, made.enabled, made.server_id) == (config, True, None)
    with pytest.raises(InvalidInputError, match="secret_refused") as caught:
        cairn.mcp_configs.create(user_id="ann", name="bad", config={"command": "npx", "env": {"API_KEY": "hunter2"}})
    assert [error["pointer"] for error in caught.value.errors] == ["/config/env/API_KEY"]
    with pytest.raises(ConflictError, match="mcp_config_conflict"):
        cairn.mcp_configs.create(user_id="ann", name="own", config=config)
    patched = cairn.using(if_match=made.etag).mcp_configs.patch("c/1", name="mine", enabled=False)
    assert (patched.name, patched.enabled) == ("mine", False)
    with pytest.raises(PreconditionFailedError):
        cairn.using(if_match=made.etag).mcp_configs.ensure("c/1", user_id="ann", name="mine")
    async with AsyncCairn(served.url, key=served.key) as other:
        ensured = await other.mcp_configs.ensure("c/2", user_id="ann", name="shared", server_id="s/1")
        assert ensured.reply is not None
        assert (ensured.reply.status, ensured.server_id, ensured.config) == (201, "s/1", {})
        listed = other.mcp_configs.list(user_id="ann", sort="name", limit=1)
        assert [one.id async for one in listed] == ["c/1", "c/2"]
        assert [one.id async for one in other.mcp_configs.list(has_server=True, enabled=True)] == ["c/2"]
        await other.mcp_configs.delete("c/2")
        assert (await other.mcp_configs.get("c/1")).name == "mine"


async def test_all_configurations_of_a_user_at_once(served: Served, cairn: Cairn) -> None:
    batch = cairn.batch()
    pending = batch.mcp_configs.replace_of_user("a/1", [{"name": name, "config": {"command": "x"}} for name in "ba"])
    batch.send()
    held = pending.result()
    assert (held.user_id, [one.name for one in held.configs]) == ("a/1", ["a", "b"])
    read = cairn.mcp_configs.of_user("a/1")
    assert read.etag == held.etag is not None
    async with AsyncCairn(served.url, key=served.key) as other:
        items: list[McpConfigItem] = [{"name": "b", "config": {"command": "y"}}]
        replaced = await other.using(if_match=read.etag).mcp_configs.replace_of_user("a/1", items)
        assert [(one.name, one.config) for one in replaced.configs] == [("b", {"command": "y"})]
        with pytest.raises(PreconditionFailedError) as caught:
            await other.using(if_match=read.etag).mcp_configs.replace_of_user("a/1", [])
        assert caught.value.facts["current_etag"] == replaced.etag
        assert len((await other.mcp_configs.of_user("a/1")).configs) == 1
        assert (await other.mcp_configs.of_user("nobody")).configs == []
