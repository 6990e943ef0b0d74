"""Configurations hold references to secrets: a value that may be one is refused by name, and is found nowhere after."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import httpx
import pytest

from app.mcp.errors import SecretRefused
from app.mcp.secrecy import refuse_secrets
from app.mcp.secret_names import Guard, guard_of
from app.tables import METADATA
from tests.conftest import http, new_tenant, running, settings_for
from tests.payloads import problem, send

VALUE = "hunter2-7f3e9c41"
SECRETS: dict[str, tuple[Any, list[str]]] = {
    "env": ({"env": {"STRIPE": VALUE, "API_KEY": "${API_KEY}"}}, ["/config/env/STRIPE"]),
    "a URL of env": ({"env": {"HOOK_URL": f"https://h.example/{VALUE}"}}, ["/config/env/HOOK_URL"]),
    "a plain name of env": ({"env": {"LOG_LEVEL": f"debug --token {VALUE}"}}, ["/config/env/LOG_LEVEL"]),
    "a plain name below a secret": ({"secrets": {"mode": VALUE}}, ["/config/secrets/mode"]),
    "said to be plain": ({"env": {"DB_PASSWORD": {"plain": VALUE}}}, ["/config/env/DB_PASSWORD/plain"]),
    "said to be plain, but seen": ({"env": {"A": {"plain": f"API_KEY={VALUE}"}}}, ["/config/env/A/plain"]),
    "said to be plain, and more": ({"env": {"A": {"plain": "a", "b": VALUE}}}, ["/config/env/A/b"]),
    "no tokenizer": ({"tokenizerToken": VALUE}, ["/config/tokenizerToken"]),
    "a number that counts nothing": ({"token": 12345678, "pass": 12345678}, ["/config/token", "/config/pass"]),
    "headers": ({"headers": {"X-Whatever": VALUE}}, ["/config/headers/X-Whatever"]),
    "a scheme": ({"headers": {"Authorization": f"Bearer {VALUE}"}}, ["/config/headers/Authorization"]),
    "a list of variables": ({"env": [f"A={VALUE}", "B=${B}"]}, ["/config/env/0"]),
    "a member": ({"apiKey": VALUE, "Access-Token": VALUE}, ["/config/apiKey", "/config/Access-Token"]),
    "below a member": ({"auth": {"kind": VALUE, "more": [VALUE]}}, ["/config/auth/kind", "/config/auth/more/0"]),
    "a number": ({"password": 12345678}, ["/config/password"]),
    "deep": ({"a": [{"b/c": {"~secret": VALUE}}]}, ["/config/a/0/b~1c/~0secret"]),
    "an option": ({"args": ["--token", VALUE]}, ["/config/args/1"]),
    "an option with its value": ({"args": [f"--api-key={VALUE}"]}, ["/config/args/0"]),
    "a variable of docker": ({"args": ["-e", f"DB_PASSWORD={VALUE}"]}, ["/config/args/1"]),
    "a header of curl": ({"args": ["-H", f"Authorization: {VALUE}"]}, ["/config/args/1"]),
    "a command line": ({"note": f"run --secret {VALUE} now"}, ["/config/note"]),
    "a URL": ({"url": f"https://bob:{VALUE}@example.com/"}, ["/config/url"]),
    "a query": ({"url": f"https://example.com/?q=1&access_token={VALUE}"}, ["/config/url"]),
    "a known form": ({"note": "use ghp_" + "a1" * 18}, ["/config/note"]),
    "a fullwidth name": ({"\uff34oken": VALUE}, ["/config/\uff34oken"]),
    "a default": ({"env": {"A": "${A:-" + VALUE + "}"}}, ["/config/env/A"]),
    "a variable by name and value": (
        {"variables": [{"name": "API_KEY", "value": VALUE}, {"name": "MODE", "value": "fast"}]},
        ["/config/variables/0/value"],
    ),
    "a pair": ({"params": [["api_key", VALUE], ["mode", "fast"]]}, ["/config/params/0/1"]),
    "variables by another name": ({"serverEnv": {"A": VALUE}}, ["/config/serverEnv/A"]),
    "headers by another name": ({"extra_headers": {"X-A": VALUE}}, ["/config/extra_headers/X-A"]),
    "an option that sets a header": ({"args": [f"--header=X-Api-Key: {VALUE}"]}, ["/config/args/0"]),
    "an option that sets a variable": ({"args": [f"--env=API_KEY={VALUE}"]}, ["/config/args/0"]),
    "an option apart from its sign": ({"args": ["--token=", VALUE]}, ["/config/args/1"]),
    "an option of windows": ({"args": [f"/token:{VALUE}"]}, ["/config/args/0"]),
    "a quoted header": ({"args": ["-c", f'curl -H "X-Api-Key: {VALUE}"']}, ["/config/args/1"]),
    "a subshell": ({"args": ["-c", f"(API_KEY={VALUE} run)"]}, ["/config/args/1"]),
    "JSON in a text": ({"args": ['--config={"api_key": "' + VALUE + '"}']}, ["/config/args/0"]),
    "YAML in a text": ({"note": f"a:\n  api_key: {VALUE}"}, ["/config/note"]),
    "spaces around": ({"dsn": f"User = bob; Password = {VALUE}"}, ["/config/dsn"]),
    "a fragment": ({"url": f"https://example.com/#access_token={VALUE}"}, ["/config/url"]),
    "a percent-encoded name": ({"url": f"https://example.com/?%74oken={VALUE}"}, ["/config/url"]),
    "a signed URL": ({"url": f"https://example.com/?X-Amz-Signature={VALUE}"}, ["/config/url"]),
    "a token for a user": ({"url": f"https://{VALUE}{VALUE}@example.com/"}, ["/config/url"]),
    "a Cyrillic letter": ({"p\u0430ssword": VALUE}, ["/config/p\u0430ssword"]),
    "a Greek letter in an option": ({"args": [f"--t\u03bfken={VALUE}"]}, ["/config/args/0"]),
    "an accent": ({"t\u00f3ken": VALUE}, ["/config/t\u00f3ken"]),
    "a fullwidth sign": ({"args": [f"--token\uff1d{VALUE}"]}, ["/config/args/0"]),
    "a key in one word": ({"PRIVATEKEY": VALUE, "DBPASS": VALUE}, ["/config/PRIVATEKEY", "/config/DBPASS"]),
    "a name": ({"a": {f"--token={VALUE}": {"x": 1, "key": VALUE}}}, ["/config/a"]),
    "a reference in a known form": ({"note": "${sk-" + "a1" * 10 + "}"}, ["/config/note"]),
    "a reference with more": ({"env": {"A": {"secret_ref": "a", "value": VALUE}}}, ["/config/env/A/value"]),
}  # fmt: skip
FINE = {
    "command": "npx",
    "args": ["-y", "server", "--port=8080", "--token", "${TOKEN}", "--key=${env:KEY}", "-e", "API_KEY=${API_KEY}", "."],
    "env": {"A": {"secret_ref": "vault/a"}, "B": "${B}", "C": "", "D": None},
    "headers": {"Authorization": "Bearer ${input:api-key}"},
    "url": "https://git@example.com/x?q=tokens&key=${KEY}",
    "auth": True,
    "password": {"secret_ref": "p"},
    "timeout": 1.5,
    "tools": [{"name": "list_api_keys", "description": "Lists what there is."}],
    "header": "X-Mode",
    "note": 'Ключ: see the handbook; key=${KEY}&mode=fast, {"token":"${TOKEN}"} (api_key=${KEY})',
    "nested": {"monkey": "banana", "author": "ann", "keyboard": "de"},
}
PLAIN: dict[str, Any] = {
    "known words": {"tokenizer": "bpe", "tokenizerModel": "bpe", "TOKENIZERS_PARALLELISM": "no", "secretary": "ann"},
    "counts": {"max_tokens": 4096, "tokenLimit": 9, "args": ["--max-tokens", "4096", "--token-limit=9"]},
    "lifetimes": {"token_ttl_seconds": 3600, "cookie_timeout": 1.5},
    "where a secret is, and what it is": {
        "token_url": "https://id.example/token", "secret_name": "db", "password_file": "/run/secrets/db",
        "token_type": "opaque", "auth": {"type": "oauth2"}, "key_path": "/etc/key.pem",
    },
    "plain names": {
        "env": {"LOG_LEVEL": "debug", "NODE_ENV": "production", "DEBUG": "1", "TZ": "UTC", "PATH": "/bin:/usr/bin"},
        "headers": {"Accept": "text/html", "Content-Type": "application/json", "User-Agent": "me/1.0"},
    },
    "a list of variables": {"env": ["LOG_LEVEL=debug", "A=${A}", "B=", "PYTHONUNBUFFERED=1"]},
    "switches": {"env": {"PYTHONUNBUFFERED": "1", "TELEMETRY": "off", "CI": True, "A": 0}},
    "said to be plain": {
        "env": {"STRIPE": {"plain": "off"}, "WORKERS": {"plain": 4}}, "sort_key": {"plain": "name"},
        "args": ["--sort-key", {"plain": "name"}],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_what_may_be_a_secret_is_named_and_not_repeated(name: str) -> None:
    config, places = SECRETS[name]
    with pytest.raises(SecretRefused) as caught:
        refuse_secrets("/config", httpx.Request("POST", "http://x", json=config).content)
    found = [error["pointer"] for error in caught.value.facts["errors"]]
    assert len(found) == len(set(found))
    # A member that is no reference is named with what is below it.
    assert [place for place in found if place in places] == places
    assert VALUE not in caught.value.detail + str(caught.value.facts)


def test_references_and_plain_values_pass() -> None:
    refuse_secrets("/config", httpx.Request("POST", "http://x", json=FINE).content)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_configuration_passes(name: str) -> None:
    refuse_secrets("/config", httpx.Request("POST", "http://x", json=PLAIN[name]).content)


@pytest.mark.parametrize(
    "name",
    ["apiKey", "x-api-key", "AuthToken", "authtoken", "PGPASSWORD", "pass_word", "client_secret", "Cookie", "TOKENs"],
)
def test_a_name_is_known_however_it_is_spelt(name: str) -> None:
    assert guard_of(name) is Guard.REFERENCES


@pytest.mark.parametrize("name", ["key", "sortKey", "auth", "PWD", "GITHUB_PAT"])
def test_a_name_that_may_mean_a_secret_wants_to_be_said_plain(name: str) -> None:
    assert guard_of(name) is Guard.PLAINLY


async def test_a_refused_value_is_found_nowhere(
    clone: Callable[[], Awaitable[str]], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    url = await clone()
    connection = await asyncpg.connect(url)
    async with running(settings_for(url, http={"access_log": True})) as service, await new_tenant(service) as client:
        fine = {"user_id": "u", "name": "n", "config": {"command": "run"}}
        assert (await client.post("/v1/mcp/configs", json={"id": "c", **fine})).status_code == 201
        bad = {**fine, "config": {"command": "run", "env": {"KEY": VALUE}}}
        items = {"items": [{"name": "a", "config": {"command": "run"}}, {"name": "b", "config": bad["config"]}]}
        calls = [
            ("POST", "/v1/mcp/configs", bad, "/config/env/KEY"),
            ("PUT", "/v1/mcp/configs/c", bad, "/config/env/KEY"),
            ("PUT", "/v1/mcp/configs/new", bad, "/config/env/KEY"),
            ("PATCH", "/v1/mcp/configs/c", {"config": bad["config"]}, "/config/env/KEY"),
            ("PUT", "/v1/mcp/users/u/configs", items, "/items/1/config/env/KEY"),
        ]
        for number, (method, path, body, pointer) in enumerate(calls):
            operation = {"method": method, "path": path, "body": body}
            for refused in (
                await client.request(method, path, json=body, headers={"idempotency-key": f"k{number}"}),
                await client.post(
                    "/v1/batch", json={"operations": [operation]}, headers={"idempotency-key": f"b{number}"}
                ),
            ):
                assert problem(refused) == (422, "secret_refused")
                assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]
                assert VALUE not in refused.text
        # Nor where a member that no configuration has holds it, or the body is broken.
        for body in (
            b'{"secrets_json":{"a":"%b"}}',
            b'{"user_id":"u","name":"n","config":"%b"}',
            b'{"config":{"a":"%b"',
        ):
            refused = await send(client, "POST", "/v1/mcp/configs", body % VALUE.encode(), **{"idempotency-key": "x"})
            assert refused.status_code in (400, 422)
            assert VALUE not in refused.text
        assert [item["id"] for item in (await client.get("/v1/mcp/configs")).json()["items"]] == ["c"]
        metrics = await http(service).get("/metrics")
    for table in METADATA.tables:
        rows = await connection.fetchval(
            f"SELECT count(*) FROM {table} AS t WHERE strpos(t::text, $1) > 0 OR strpos(t::text, $2) > 0",
            VALUE, VALUE.encode().hex(),
        )  # fmt: skip
        assert rows == 0, table
    await connection.close()
    written = capfd.readouterr()
    assert VALUE not in metrics.text + caplog.text + written.out + written.err
