"""`.env.example` and the settings are one list: what a person copies is what the service reads."""

import os
import re
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from app.settings import Settings
from app.settings_example import example

WRITTEN = Path(__file__).parents[2] / ".env.example"


def test_env_example_is_what_the_settings_say() -> None:
    assert WRITTEN.read_text() == example(), "the settings have changed: run make env"


def test_env_example_uncommented_gives_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CAIRN_")]:
        monkeypatch.delenv(name)
    copied = tmp_path / ".env"
    copied.write_text(re.sub(r"^# (CAIRN_\w+=)", r"\1", WRITTEN.read_text(), flags=re.M))
    assert "\nCAIRN_HTTP__PORT=8000\n" in copied.read_text()
    assert _read(copied) == _read(None)


def test_every_setting_says_what_it_means() -> None:
    assert re.findall(r"^# None|^# *\n# CAIRN", WRITTEN.read_text(), re.M) == []


def _read(file: Path | None) -> BaseSettings:
    return Settings(_env_file=file)
