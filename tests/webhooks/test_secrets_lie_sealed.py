"""Secrets are sealed with keys of the settings, which can be exchanged; what cannot be opened is said in words."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from app.commands.root import app
from app.main import create_app
from app.settings import WebhookSettings
from app.webhooks.sealing import EncryptionKeyMissing, Seal, new_key

# One that does not change, as it is part of the names of tests.
KEY = "Zm9yIHRoZSB0ZXN0cyBhbmQgZm9yIG5vdGhpbmcgbW8="
DAMAGED = "c2hvcnQ="


def test_the_first_key_seals_and_every_key_opens() -> None:
    old, new = new_key(), new_key()
    sealed = Seal(old).seal(b"secret")
    both = Seal(f"{new}, {old},")
    assert b"secret" not in sealed
    assert both.open(sealed) == b"secret"
    assert Seal(new).open(both.seal(b"secret")) == b"secret"


def test_the_same_secret_is_never_sealed_alike() -> None:
    seal = Seal(new_key())
    assert seal.seal(b"secret") != seal.seal(b"secret")


@pytest.mark.parametrize("keys", [None, "", " , "])
def test_without_a_key_nothing_is_sealed_and_the_error_says_what_to_set(keys: str | None) -> None:
    with pytest.raises(EncryptionKeyMissing) as refused:
        Seal(keys).seal(b"secret")
    assert (refused.value.status, refused.value.code) == (409, "encryption_key_missing")
    assert "CAIRN_WEBHOOKS__ENCRYPTION_KEYS" in refused.value.detail


def test_what_no_key_opens_is_said_in_words() -> None:
    sealed = Seal(new_key()).seal(b"secret")
    for value in (sealed, sealed[:-4] + b"AAAA", sealed[:20], b"", b"\x00\xff not sealed"):
        with pytest.raises(EncryptionKeyMissing, match="opens the secret"):
            Seal(new_key()).open(value)


@pytest.mark.parametrize("key", [DAMAGED, KEY[:-2], KEY + "A", "é" * 44])
def test_a_damaged_key_is_refused_and_not_told(key: str) -> None:
    for make in (Seal, lambda keys: WebhookSettings(encryption_keys=keys)):
        with pytest.raises(ValueError, match="key 2 of 2 is damaged") as refused:
            make(f"{new_key()},{key}")
        assert key not in str(refused.value)


def test_the_service_does_not_start_with_a_damaged_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAIRN_WEBHOOKS__ENCRYPTION_KEYS", DAMAGED)
    with pytest.raises(ValidationError, match="key 1 of 1 is damaged") as refused:
        create_app()
    assert DAMAGED not in str(refused.value)
    for command in ("serve", "worker"):
        ended = CliRunner().invoke(app, [command])
        assert ended.exit_code == 1
        assert ended.output.startswith("The setting CAIRN_WEBHOOKS__ENCRYPTION_KEYS cannot be used: key 1 of 1 is")
        assert DAMAGED not in ended.output


def test_the_command_line_makes_a_key() -> None:
    made = CliRunner().invoke(app, ["webhooks", "new-key"])
    assert Seal(made.output.strip()).seal(b"secret")


@pytest.mark.parametrize(
    ("keys", "allowed", "told"),
    [
        (None, "", r"webhooks +note +No CAIRN_WEBHOOKS__ENCRYPTION_KEYS, so none can be made"),
        (KEY, "10.1.0.0/16,receiver", r"webhooks +note +.* lets them reach 10\.1\.0\.0/16,receiver\."),
        (KEY, "", r"webhooks +ok +Their secrets are sealed"),
    ],
)
def test_the_doctor_says_whether_webhooks_can_be_made(keys: str | None, allowed: str, told: str) -> None:
    settings = {"CAIRN_WEBHOOKS__ENCRYPTION_KEYS": keys or "", "CAIRN_WEBHOOKS__ALLOW_PRIVATE": allowed}
    nowhere = {"CAIRN_DATABASE__URL": "postgresql://nobody@127.0.0.1:1/none", "COLUMNS": "160"}
    assert re.search(told, CliRunner().invoke(app, ["doctor"], env=settings | nowhere).output)
