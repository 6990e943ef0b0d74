"""docs/lucky.md has a place for every table, column, method and error of Lucky, and every method has its test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from app.imports.lucky import LEFT_OUT, TABLES
from tests.lucky.catalogue import BESIDE, ERRORS, METHODS, OLD_COLUMNS
from tests.lucky.catalogue import TABLES as DOCUMENTED

PAGE = (Path(__file__).parents[2] / "docs" / "lucky.md").read_text()
SECTIONS = {
    heading.split(" ")[0].removeprefix("public."): text
    for heading, text in re.findall(r"^### (.+)\n((?:(?!^##).*\n)*)", PAGE, re.MULTILINE)
}
MAPPED = {mapping.source: mapping for mapping in TABLES}


def test_every_table_is_mapped_or_left_out() -> None:
    assert set(DOCUMENTED) == set(MAPPED) | set(LEFT_OUT)
    assert not set(MAPPED) & set(LEFT_OUT)


@pytest.mark.parametrize("table", DOCUMENTED)
def test_every_column_has_its_place_on_the_page(table: str) -> None:
    named = set(re.findall(r"`(\w+)`", SECTIONS[table]))
    assert not set(DOCUMENTED[table]) - named
    assert not set(OLD_COLUMNS.get(table, {})) - named


@pytest.mark.parametrize("table", MAPPED)
def test_every_column_of_a_mapped_table_is_read_or_kept_or_said_to_have_no_place(table: str) -> None:
    mapping = MAPPED[table]
    told = dict(re.findall(r"^\| `(\w+)`(?: \*old\*)? \| (.+) \|$", SECTIONS[table], re.MULTILINE))
    for column in DOCUMENTED[table] | OLD_COLUMNS.get(table, {}):
        if column not in mapping.columns:
            place = f"{mapping.keeps}.lucky.{column}" if mapping.keeps and column not in mapping.passed_over else "none"
            assert place in told[column] or column == "clerk_id", column
            continue
        target = mapping.columns[column][0]
        if target not in mapping.extra:
            assert f"`{target}`" in told[column], column


def test_every_method_and_error_has_its_line() -> None:
    lines = {name for line in PAGE.splitlines() if line.startswith("|") for name in re.findall(r"`([\w-]+)`", line)}
    named = {method for methods in METHODS.values() for method in methods} | {*ERRORS, *BESIDE}
    assert not named - lines


def test_every_method_has_a_test_named_after_it() -> None:
    tests = [
        found.name
        for path in Path(__file__).parent.glob("test_*.py")
        for found in ast.walk(ast.parse(path.read_text()))
        if isinstance(found, ast.AsyncFunctionDef)
    ]
    for interface, methods in METHODS.items():
        for method in methods:
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method).lower().replace("-", "_")
            wanted = f"test_message_{name}" if interface == "IMessagePersistence" else f"test_{name}"
            assert any(test == wanted or test.startswith(f"{wanted}_") for test in tests), wanted
