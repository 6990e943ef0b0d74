"""ARCHITECTURE.md, by which a newcomer finds the way, names the layers and domains of the import contracts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def contract(named: str) -> dict[str, Any]:
    """The import contract whose name begins so."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (found,) = (one for one in project["tool"]["importlinter"]["contracts"] if one["name"].startswith(named))
    return dict(found)


def test_its_layers_are_those_of_the_import_contract() -> None:
    layers = contract("Every import points down")["layers"]
    (drawn,) = re.findall(r"^cli → .*$", PAGE, re.MULTILINE)
    assert drawn.split(" → ") == [re.sub(r"[()]", "", layer) for layer in layers]


def test_it_names_every_domain() -> None:
    domains = {container.removeprefix("app.") for container in contract("A domain is")["containers"]}
    (named,) = re.findall(r"^The domains are (.*)$", PAGE, re.MULTILINE)
    assert set(re.findall(r"\w+", named)) >= domains
