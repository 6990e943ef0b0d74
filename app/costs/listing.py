"""Costs in SQL: one statement groups what matches, adds it up, and gives a page of the groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.db.database import Reader
from app.db.page import Found, Page, decoded, digest_of_list, encoded
from app.db.sql import Statement
from app.errors import BadCursor, InvalidInput
from app.invocations.listing import INVOCATIONS

# Where the key of an invocation is not its own column: a generation is what it names, or else that of its version,
# unless it names another run than that one's; a run is what it names, or else that of its generation.
_GENERATIONS = """
 LEFT JOIN generations AS g ON g.tenant_id = t.tenant_id AND g.id = t.generation_id
 LEFT JOIN versions AS v ON v.tenant_id = t.tenant_id AND v.id = t.version_id AND t.generation_id IS NULL
 LEFT JOIN generations AS o ON o.tenant_id = v.tenant_id AND o.id = v.generation_id
  AND (t.run_id IS NULL OR t.run_id = o.run_id)"""
_OF_INVOCATIONS = {
    # A date for each row, and its text for each group: the text costs more than the sums.
    "day": ("CAST(t.started_at AT TIME ZONE 'UTC' AS date)", ""),
    "workflow": ("t.workflow_id", ""),
    "version": ("t.version_id", ""),
    "run": ("COALESCE(t.run_id, g.run_id, o.run_id)", _GENERATIONS),
    "generation": ("COALESCE(t.generation_id, o.id)", _GENERATIONS),
}
_OF_NODES = {"node": "n.node_id", "model": 'n.model COLLATE "C"'}
_NODES = "node_invocations AS n ON n.tenant_id = t.tenant_id AND n.invocation_id = t.id"
_TOKENS = "sum(n.input_tokens) AS input_tokens, sum(n.output_tokens) AS output_tokens"
_SUMS = (
    "sum(count) AS count, COALESCE(sum(unpriced_count), 0) AS unpriced_count, sum(usd_cost) AS usd_cost,"
    " sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens"
)


async def costs(reader: Reader, tenant_id: str, group_by: str, page: Page, given: Mapping[str, Any]) -> Found:
    """A page of the groups of what matches, and what all groups add up to; `given` are filters of invocations.

    Raises `BadCursor`.
    """
    sort = page.sort or "key"
    order = page.order or ("asc" if sort == "key" else "desc")
    digest = digest_of_list(f"costs by {group_by}", tenant_id, sort, order, given)
    amount, ids, place = decoded(page.cursor, digest, 1)
    after = ids["after_id_0"]
    try:
        rows = await reader.rows(
            _statement(group_by, sort, order, frozenset(given), from_start=place == "start"),
            tenant_id=tenant_id,
            limit=page.limit + 1,
            after_key=after[1:] if after else None,
            after_amount=amount,
            **given,
        )
    except InvalidInput as refusal:
        if place == "start":
            raise
        raise BadCursor("The cursor is damaged.") from refusal
    groups = [row for row in rows if row["body"] is not None]
    following = None
    if len(groups) > page.limit:
        last = groups[page.limit - 1]
        # An id may be empty, so what is null is told from it by a mark.
        following = encoded(digest, last["amount"], ["" if last["key"] is None else f"={last['key']}"])
    totals = b'"group_by":"%s","currency":"USD","totals":%s,' % (group_by.encode(), rows[0]["totals"])
    total = rows[0]["total"] if page.count else None
    return Found([row["body"] for row in groups[: page.limit]], following, total, totals)


def _statement(group_by: str, sort: str, order: str, given: frozenset[str], *, from_start: bool) -> Statement:
    sign = "<" if order == "desc" else ">"
    beyond = f"(key IS NULL) > (CAST(:after_key AS text) IS NULL) OR key {sign} CAST(:after_key AS text)"
    by, amount = f"key {order} NULLS LAST", "CAST(NULL AS text)"
    if sort == "usd_cost":
        after = "CAST(:after_amount AS numeric)"
        beyond = (
            f"(usd_cost IS NULL) > ({after} IS NULL) OR usd_cost {sign} {after}"
            f" OR usd_cost IS NOT DISTINCT FROM {after} AND ({beyond})"
        )
        by, amount = f"usd_cost {order} NULLS LAST, {by}", "CAST(usd_cost AS text)"
    members = "count, {0}.unpriced_count, trim_scale({0}.usd_cost) AS usd_cost, {0}.input_tokens, {0}.output_tokens"
    return Statement(
        f"WITH groups AS MATERIALIZED ({_groups(group_by, given)}), page AS ("
        f"SELECT *, {amount} AS amount, row_number() OVER (ORDER BY {by}) AS place FROM groups"
        f"{'' if from_start else f' WHERE {beyond}'} ORDER BY {by} LIMIT CAST(:limit AS bigint)),"
        f" whole AS (SELECT count(*) AS total, COALESCE(sum(count), 0) AS counted, {_SUMS} FROM groups)"
        f" SELECT w.total, (SELECT row_to_json(s) FROM (SELECT w.counted AS {members.format('w')}) AS s) AS totals,"
        f" p.key, p.amount, CASE WHEN p.place IS NOT NULL THEN"
        f" (SELECT row_to_json(s) FROM (SELECT p.key, p.{members.format('p')}) AS s) END AS body"
        " FROM whole AS w LEFT JOIN page AS p ON true ORDER BY p.place",
        "costs",
    )


def _groups(group_by: str, given: frozenset[str]) -> str:
    """The SQL of the groups. Money and tokens are added up apart, each where its rows are read."""
    where = INVOCATIONS.where(given)
    own = "count(*) AS count, count(*) - count({0}.usd_cost) AS unpriced_count, sum({0}.usd_cost) AS usd_cost"
    if group_by in _OF_NODES:
        key = _OF_NODES[group_by]
        # Every node invocation is one of an invocation of its tenant: without a filter there is nothing to look up.
        source = f"invocations AS t JOIN {_NODES} WHERE {where}" if given else _ALL_NODES
        return f"SELECT {key} AS key, {own.format('n')}, {_TOKENS} FROM {source} GROUP BY {key}"
    key, joins = _OF_INVOCATIONS[group_by]
    nothing = "CAST(NULL AS numeric)"
    shown = "to_char(parts.key, 'YYYY-MM-DD') COLLATE \"C\"" if group_by == "day" else "parts.key"
    return (
        f"SELECT {shown} AS key, {_SUMS} FROM ("
        f"SELECT {key} AS key, {own.format('t')}, {nothing} AS input_tokens, {nothing} AS output_tokens"
        f" FROM invocations AS t{joins} WHERE {where} GROUP BY 1 UNION ALL"
        f" SELECT {key}, 0, 0, NULL, sum(n.input_tokens), sum(n.output_tokens) FROM invocations AS t{joins}"
        f" JOIN {_NODES} WHERE {where} AND (n.input_tokens IS NOT NULL OR n.output_tokens IS NOT NULL) GROUP BY 1"
        ") AS parts GROUP BY parts.key"
    )


_ALL_NODES = "node_invocations AS n WHERE n.tenant_id = :tenant_id"
