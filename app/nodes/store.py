"""Node invocations and their actions in SQL: hot writes are set-based, one statement each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from app.db.database import Answer, Reader, Writer
from app.db.digest import digest_of
from app.db.ids import ids_of, new_id
from app.db.integrity import IdsTaken
from app.db.page import Listing, Sort
from app.db.race import decided
from app.db.shape import Shape, instant, items, money, only, verbatim
from app.db.sql import Statement, assignment, cleared, load
from app.errors import changed, invalid
from app.invocations import store as invocations
from app.nodes.errors import ActionConflict, NodeInvocationConflict, NodeInvocationEnded, NodeInvocationNotFound
from app.versions.node_errors import NodeVersionMissing

RESULTS = {
    "model": "models",
    "output": "outputs",
    "summary": "summaries",
    "large_summary": "large_summaries",
    "usd_cost": "usd_costs",
    "input_tokens": "input_counts",
    "output_tokens": "output_counts",
    "error": "errors",
    "metadata": "metadatas",
    "extras": "extrases",
}
ACTION_COLUMNS = {
    "tool": "tools",
    "input": "inputs",
    "output": "outputs",
    "status": "statuses",
    "started_at": "started_ats",
    "duration_ms": "durations",
    "exit_code": "exit_codes",
    "error": "errors",
}
NEVER_NULL = frozenset({"metadata", "extras"})

NODE = Shape(
    "id",
    "invocation_id",
    "node_id",
    "node_version_id",
    "attempt_no",
    "status",
    instant("started_at"),
    instant("ended_at"),
    "model",
    verbatim("output"),
    "summary",
    "large_summary",
    money("usd_cost"),
    "input_tokens",
    "output_tokens",
    "files",
    "error",
    "metadata",
    "extras",
)
SUMMARY = Shape("id", "node_id", "attempt_no", "status", instant("started_at"), "summary", "large_summary")
ACTION = Shape(
    "id",
    "tool",
    verbatim("input"),
    verbatim("output"),
    "status",
    instant("started_at"),
    money("duration_ms"),
    "exit_code",
    "error",
)

_STARTED = {"started_at": Sort("{t}.started_at", "timestamptz")}
_INVOCATION = (
    "EXISTS (SELECT FROM invocations AS i"
    " WHERE i.tenant_id = t.tenant_id AND i.id = t.invocation_id AND i.{0} = ANY (:{0}))"
)
_WITHIN = {"invocation_id": "t.invocation_id = :invocation_id", "node_id": "t.node_id = ANY (:node_id)"}
NODES = Listing(
    "node_invocations", "node_invocations AS t", NODE, sorts=_STARTED, default=("started_at", "asc"), filters=_WITHIN
)
SUMMARIES = Listing(
    "summaries", "node_invocations AS t", SUMMARY, sorts=_STARTED, default=("started_at", "asc"), filters=_WITHIN
)
# Ids are unique within an invocation.
EVERYWHERE = Listing(
    "node_invocations_everywhere",
    "node_invocations AS t",
    NODE,
    sorts=_STARTED,
    default=("started_at", "desc"),
    filters={
        "id": "t.id = ANY (:id)",
        "node_id": "t.node_id = ANY (:node_id)",
        "status": "t.status = ANY (:status)",
        "run_id": _INVOCATION.format("run_id"),
        "version_id": _INVOCATION.format("version_id"),
    },
    ids=("t.invocation_id", "t.id"),
)
ACTIONS = Listing(
    "actions",
    "actions AS t",
    ACTION,
    sorts={"position": Sort("{t}.position", "bigint")},
    default=("position", "asc"),
    filters={
        "invocation_id": "t.invocation_id = :invocation_id",
        "node_invocation_id": "t.node_invocation_id = :node_invocation_id",
    },
)


_SQL = load(
    __file__,
    node=NODE.json("n"),
    assignments=",\n    ".join(
        assignment("n", name, empty="CAST('{}' AS jsonb)" if name in NEVER_NULL else "NULL") for name in RESULTS
    ),
)
_ONE_ACTION = load(__file__, "actions.sql", body=only(ACTION.json("a")))["record"]
_ACTIONS = load(__file__, "actions.sql", body=items(ACTION.json("a"), "g.place"))["record"]


def _results(given: Mapping[str, Any]) -> dict[str, list[Any]]:
    files = given.get("files")
    named: dict[str, list[Any]] = {plural: [given.get(name)] for name, plural in RESULTS.items()}
    error = given.get("error")
    named["errors"] = [None if error is None else json.dumps(error).encode()]
    named["file_lists"] = [None if files is None else json.dumps(files).encode()]
    return named


async def start(writer: Writer, tenant_id: str, invocation_id: str, given: Mapping[str, Any]) -> Answer:
    """Start a node invocation, or record it in one: 201, or 200 with the row as it now is for the same fields.

    Raises `InvocationNotFound`, `NodeVersionMissing`, `NodeInvocationConflict`. Under an invocation that has ended it
    is recorded all the same.
    """
    status = given.get("status", "running")
    if status == "running" and given.get("ended_at") is not None:
        raise invalid("/ended_at", "must be absent while the status is running")
    node_invocation_id = given.get("id") or new_id("ni")
    digest = digest_of({**given, "id": node_invocation_id})
    return await decided(
        writer,
        _SQL["start"],
        lambda: _explain_start(writer, tenant_id, invocation_id, node_invocation_id, digest, given["node_id"]),
        tenant_ids=[tenant_id],
        invocation_ids=[invocation_id],
        ids=[node_invocation_id],
        node_ids=[given["node_id"]],
        attempt_nos=[given.get("attempt_no", 1)],
        statuses=[status],
        started_ats=[given.get("started_at")],
        ended_ats=[given.get("ended_at")],
        digests=[digest],
        **_results(given),
    )


async def _explain_start(
    reader: Reader, tenant_id: str, invocation_id: str, node_invocation_id: str, digest: bytes, node_id: str
) -> None:
    await invocations.require(reader, tenant_id, invocation_id)
    standing = await reader.row(
        _SQL["standing"], tenant_id=tenant_id, invocation_id=invocation_id, id=node_invocation_id
    )
    if standing is None:
        raise NodeVersionMissing("The invocation's version has no such node.", node_id=node_id)
    if standing["digest"] != digest:
        raise NodeInvocationConflict(
            "A node invocation with this id was started with other fields.", id=node_invocation_id
        )


async def end(
    writer: Writer,
    tenant_id: str,
    invocation_id: str,
    node_invocation_id: str,
    given: Mapping[str, Any],
    if_match: list[int] | None,
) -> Answer:
    """End a node invocation with its results. The first terminal state wins; an exact repeat answers 200.

    Raises `NodeInvocationNotFound`, `NodeInvocationEnded`, `PreconditionFailed`.
    """
    digest = digest_of(given)
    files = {"files": given["files"] or []} if "files" in given else {}

    async def why() -> None:
        standing = await _standing(writer, tenant_id, invocation_id, node_invocation_id)
        if standing["status"] != "running" and standing["end_digest"] != digest:
            raise NodeInvocationEnded(
                f"The node invocation is {standing['status']}; the first terminal state stays.",
                current_status=standing["status"],
            )
        if standing["status"] == "running" and if_match is not None and standing["revision"] not in if_match:
            raise changed("node invocation", standing["revision"])

    return await decided(
        writer,
        _SQL["end"],
        why,
        tenant_ids=[tenant_id],
        invocation_ids=[invocation_id],
        ids=[node_invocation_id],
        statuses=[given["status"]],
        ended_ats=[given.get("ended_at")],
        cleared=[cleared(RESULTS, given)],
        digests=[digest],
        if_match=if_match,
        **_results({**given, **files}),
    )


async def _standing(reader: Reader, tenant_id: str, invocation_id: str, node_invocation_id: str) -> Any:
    row = await reader.row(_SQL["standing"], tenant_id=tenant_id, invocation_id=invocation_id, id=node_invocation_id)
    if row is None:
        raise NodeInvocationNotFound("There is no such node invocation in this invocation.", id=node_invocation_id)
    return row


async def require(reader: Reader, tenant_id: str, invocation_id: str, node_invocation_id: str) -> None:
    """Raise `NodeInvocationNotFound` unless the node invocation is there."""
    await _standing(reader, tenant_id, invocation_id, node_invocation_id)


@lru_cache(maxsize=4)
def _get(include: frozenset[str]) -> Statement:
    return Statement(
        f"SELECT n.revision, {NODE.json('n', include)} AS body FROM node_invocations AS n"
        " WHERE n.tenant_id = :tenant_id AND n.invocation_id = :invocation_id AND n.id = :id"
    )


async def get(
    reader: Reader, tenant_id: str, invocation_id: str, node_invocation_id: str, include: frozenset[str]
) -> Answer:
    """The node invocation. Raises `NodeInvocationNotFound`."""
    row = await reader.row(_get(include), tenant_id=tenant_id, invocation_id=invocation_id, id=node_invocation_id)
    if row is None:
        raise NodeInvocationNotFound("There is no such node invocation in this invocation.", id=node_invocation_id)
    return Answer(200, row["body"], row["revision"])


async def record_actions(
    writer: Writer,
    tenant_id: str,
    invocation_id: str,
    node_invocation_id: str,
    actions: Sequence[Mapping[str, Any]],
    *,
    single: bool = False,
) -> Answer:
    """Record actions, all or none: 201 if any is new, else 200, in the order given; `single` answers the one itself.

    Raises `NodeInvocationNotFound`, `ActionConflict` (nothing is stored), `InvalidInput` where an id comes twice.
    """
    ids = ids_of(actions, "act")
    try:
        answer = await writer.answer(
            _ONE_ACTION if single else _ACTIONS,
            tenant_id=tenant_id,
            invocation_id=invocation_id,
            node_invocation_id=node_invocation_id,
            ids=ids,
            digests=[digest_of({**action, "id": action_id}) for action_id, action in zip(ids, actions, strict=True)],
            **{plural: [action.get(name) for action in actions] for name, plural in ACTION_COLUMNS.items()},
        )
    except IdsTaken as taken:
        raise ActionConflict("Actions with these ids were recorded with other fields.", ids=taken.ids) from taken
    assert answer is not None  # an aggregate without GROUP BY has a row, or raises
    return answer
