"""Named SQL: text with `:name` parameters, loaded from a `queries.sql` beside a store or written in place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

_PARAMETER = re.compile(r"('(?:[^']|'')*'|--[^\n]*)|(?<![:\w]):([a-z_][a-z0-9_]*)")
_SECTION = re.compile(r"^-- (name|fragment): (\w+)\n", re.MULTILINE)
_FRAGMENT = re.compile(r"\{\{(\w+)\}\}")
_MORE = re.compile(r"\bAS (answered|moved)\b")
_COMMENT_LINES = re.compile(r"^\s*--.*\n", re.MULTILINE)


class Statement:
    """One SQL statement with named parameters, as asyncpg wants it: `$n` in order of first appearance.

    A write that answers a request is written `WITH …, answer AS (SELECT status, etag, body …)`, without a final
    SELECT: `answering` adds it, and with it whatever must stand in the same transaction (an Idempotency-Key). The
    answer may have two columns more: `answered`, what the caller is told where `body` is only what is kept for replays
    (without payloads); and `moved`, the names under which somebody may wait for what the statement did.
    """

    def __init__(self, text: str, name: str = "statement") -> None:
        self.name = name
        self.source = _COMMENT_LINES.sub("", text).strip().rstrip(";")
        self.parameters: list[str] = []
        self.text = _PARAMETER.sub(self._number, self.source)
        self._under: dict[tuple[bool, bool, bool], Statement] = {}

    def _number(self, match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        if match[2] not in self.parameters:
            self.parameters.append(match[2])
        return f"${self.parameters.index(match[2]) + 1}"

    def bind(self, arguments: Mapping[str, Any]) -> list[Any]:
        """The arguments in the order of the placeholders. A missing one is a KeyError: a defect, not an input.

        An array of nothing but nulls is sent as a null, which `unnest` takes for the same and which costs no walk.
        """
        return [_shortened(arguments[name]) for name in self.parameters]

    @cached_property
    def answering(self) -> Statement:
        """The statement with its answer selected."""
        return Statement(f"{self.source}\nSELECT {self._told} FROM answer", self.name)

    @cached_property
    def _told(self) -> str:
        more = _MORE.findall(self.source)
        shown = "answered AS body, body AS kept" if "answered" in more else "body"
        return f"status, etag, {shown}" + (", moved" if "moved" in more else "")

    def answering_under(self, *, key: bool = False, attempt: bool = False, lease: bool = False) -> Statement:
        """The same under an Idempotency-Key, an attempt, a lease: each taken before, in the one statement.

        The key is claimed, and kept with the answer; where it is taken nothing of the statement happens, and where the
        statement gives no answer row nothing is kept. Attempt and lease are held to the commit; where one of them owns
        nothing, nothing of the statement happens.
        """
        under = (key, attempt, lease)
        made = self._under.get(under)
        if made is None:
            made = self._under[under] = self._answering_under(key=key, attempt=attempt, lease=lease)
        return made

    def _answering_under(self, *, key: bool, attempt: bool, lease: bool) -> Statement:
        before, after, sources = [], [], []
        if key:
            before.append("claim AS MATERIALIZED (SELECT cairn_claim_key(:claim_tenant, :claim_key) AS claimed)")
            after.append(
                "kept AS (INSERT INTO idempotency_keys (tenant_id, key, fingerprint, status, etag, body)\n"
                "  SELECT :claim_tenant, :claim_key, :claim_fingerprint, status, etag, body FROM answer, claim)"
            )
            sources.append("claim")
        if attempt:
            before.append(
                "held_attempt AS MATERIALIZED (\n"
                "  SELECT cairn_hold_attempt(:fence_tenant, :fence_submission, :fence_attempt) AS held)"
            )
            sources.append("held_attempt")
        if lease:
            before.append(
                "held_lease AS MATERIALIZED (\n"
                "  SELECT cairn_hold_lease(:fence_tenant, :fence_lease, :fence_token) AS held)"
            )
            sources.append("held_lease")
        if not sources:
            return self.answering
        # What stands before is in the FROM clause, so that it is carried out; it raises or gives one row.
        parts = ",\n".join([*before, re.sub(r"^WITH\s", "", self.source), *after])
        chosen = " CROSS JOIN ".join(sources)
        return Statement(f"WITH {parts}\nSELECT {self._told} FROM {chosen} LEFT JOIN answer ON true", self.name)


def _shortened(value: Any) -> Any:
    if type(value) is not list or not value or value[0] is not None:
        return value
    return None if all(item is None for item in value) else value


def assignment(alias: str, name: str, *, empty: str = "NULL") -> str:
    """The SQL that gives a column the value of the row `g`, or `empty` where `g.cleared` names it; else it stays."""
    kept = f"COALESCE(g.{name}, {alias}.{name})"
    return f"{name} = CASE WHEN strpos(g.cleared, ',{name},') > 0 THEN {empty} ELSE {kept} END"


def cleared(names: Iterable[str], given: Mapping[str, Any]) -> str:
    """Which of the columns are given as null, as `assignment` reads it."""
    return f",{','.join(name for name in names if name in given and given[name] is None)},"


def touched(status: str) -> int:
    """How many rows a statement touched, by what PostgreSQL says at its end; 0 where that is no number."""
    number = status.rpartition(" ")[2]
    return int(number) if number.isdigit() else 0


def load(beside: str, file_name: str = "queries.sql", **fragments: str) -> dict[str, Statement]:
    """The statements of an SQL file beside a module, by name.

    `{{fragment}}` is replaced by its SQL, which is given here or stands in the file, before its use, as `-- fragment:`.
    """
    parts = _SECTION.split(Path(beside).with_name(file_name).read_text(encoding="utf-8"))[1:]
    found: dict[str, Statement] = {}
    for kind, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        text = _FRAGMENT.sub(lambda match: fragments[match[1]], body)
        if kind == "fragment":
            fragments[name] = _COMMENT_LINES.sub("", text).strip()
        else:
            found[name] = Statement(text, name)
    return found
