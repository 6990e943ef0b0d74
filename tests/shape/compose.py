"""Reads docker-compose.yml as a test needs it: its services, with every default filled in."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


def compose() -> dict[str, Any]:
    """Answers the compose file with its defaults filled in and its anchors resolved."""
    text = (ROOT / "docker-compose.yml").read_text()
    parsed: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))
    return parsed


def services() -> dict[str, Any]:
    """Answers the services of the compose file by name."""
    found: dict[str, Any] = compose()["services"]
    return found
