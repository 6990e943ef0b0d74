"""Reads a SWE-agent `.traj` file as a workflow's record, every payload being the exact slice of the file's text."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from app.client import Json
from app.client.bodies import ActionFields, MessageFields, NodeFields
from app.client.exact import elements, members

KNOWN_MEMBERS = frozenset({"environment", "trajectory", "history", "info", "replay_config"})
NULL = Json("null")


class UnreadableTrajectoryError(Exception):
    """The file is no SWE-agent trajectory; the message says why in one sentence."""


@dataclass(frozen=True)
class Step:
    """One turn of the agent: what it did, and the tool call it made, if it made one."""

    id: str
    node_id: str
    output: Json
    action: ActionFields | None
    extras: dict[str, Any]


@dataclass(frozen=True)
class Trajectory:
    """One file as version, nodes, invocation, steps and messages; every id derives from the file's SHA-256."""

    sha256: str
    dsl: Json
    nodes: list[NodeFields]
    input: Json
    output: Json
    usd_cost: Decimal | None
    status: Literal["completed", "failed"]
    extras: dict[str, Any]
    steps: list[Step]
    messages: list[MessageFields]
    left_out: list[str] = field(default_factory=list)

    @property
    def workflow_id(self) -> str:
        """The workflow's id."""
        return f"wf_{self.sha256}"

    @property
    def version_id(self) -> str:
        """The version's id."""
        return f"ver_{self.sha256}"

    @property
    def invocation_id(self) -> str:
        """The invocation's id."""
        return f"inv_{self.sha256}"


@dataclass(frozen=True)
class _Entry:
    """One object of the file: its exact text, and its members' exact texts."""

    text: bytes
    slices: dict[str, bytes]

    @classmethod
    def of(cls, text: bytes) -> _Entry:
        return cls(text, {} if text == b"null" else members(text))

    def entries(self, name: str) -> list[_Entry]:
        """The objects of a member that is a list; none when it is absent or null."""
        found = self.slices.get(name, b"null")
        return [] if found == b"null" else [_Entry.of(text) for text in elements(found)]

    def value(self, name: str) -> Any:
        return json.loads(self.slices.get(name, b"null"), parse_float=Decimal)

    def json(self, name: str) -> Json:
        return Json.trusted(self.slices[name]) if name in self.slices else NULL

    def word(self, name: str) -> str | None:
        """A member that is text which a text column can hold; else None."""
        found = self.value(name)
        return found if isinstance(found, str) and found and _is_storable(found) else None


def read_trajectory(path: Path) -> Trajectory:
    """Read a file. Raises `UnreadableTrajectoryError` when it is none, `OSError` when it cannot be read."""
    content = path.read_bytes()
    try:
        whole = _Entry.of(content)
        history, recorded = whole.entries("history"), whole.entries("trajectory")
        info = _Entry.of(whole.slices.get("info", b"{}"))
        if not history and not recorded:
            raise UnreadableTrajectoryError(f"{path} is no SWE-agent trajectory: it has neither history nor steps.")
        return _assemble(hashlib.sha256(content).hexdigest(), whole, history, recorded, info)
    except (ValueError, RecursionError) as error:
        raise UnreadableTrajectoryError(f"{path} is no SWE-agent trajectory: {error}.") from error


def _assemble(sha256: str, whole: _Entry, history: list[_Entry], recorded: list[_Entry], info: _Entry) -> Trajectory:
    turns = _turns(history, recorded)
    steps = _steps_recorded(history, recorded, turns) if recorded else _steps_told(history, turns)
    exit_status = info.value("exit_status")
    extras = {"environment": whole.slices.get("environment"), "exit_status": info.slices.get("exit_status")}
    extras |= {"model_stats": info.slices.get("model_stats")}
    cost = _Entry.of(info.slices.get("model_stats", b"{}")).slices.get("instance_cost")
    return Trajectory(
        sha256=sha256,
        dsl=whole.json("replay_config"),
        nodes=_nodes(whole, history),
        input=next((entry.json("content") for entry in history if _is_task(entry)), NULL),
        output=whole.json("info"),
        usd_cost=Decimal(cost.decode()) if cost not in (None, b"null") else None,
        status="failed" if exit_status and not str(exit_status).startswith("submitted") else "completed",
        extras={name: Json.trusted(text) for name, text in extras.items() if text is not None},
        steps=steps,
        messages=_messages(history, turns, len(steps)),
        left_out=sorted(whole.slices.keys() - KNOWN_MEMBERS),
    )


def _turns(history: list[_Entry], recorded: list[_Entry]) -> dict[int, int]:
    """Which step each assistant message told of, by position; a message that no step repeats told of none."""
    told = [at for at, entry in enumerate(history) if entry.value("role") == "assistant" and not entry.value("is_demo")]
    if not recorded:
        return {at: number for number, at in enumerate(told)}
    turns: dict[int, int] = {}
    for at in told:
        step = recorded[len(turns)] if len(turns) < len(recorded) else None
        if step and any(
            name in step.slices and step.value(name) == history[at].value(other)
            for name, other in (("action", "action"), ("response", "content"))
        ):
            turns[at] = len(turns)
    return turns


def _steps_recorded(history: list[_Entry], recorded: list[_Entry], turns: dict[int, int]) -> list[Step]:
    teller = {number: history[at] for at, number in turns.items()}
    agents = [_agent(entry) for entry in history] or ["agent"]
    steps = []
    for number, entry in enumerate(recorded):
        told = teller.get(number)
        extras = {"execution_time": entry.json("execution_time")} if "execution_time" in entry.slices else {}
        action = _action(number, entry, told, entry.json("observation"))
        node_id = _agent(told) if told else agents[0]
        steps.append(Step(_step_id(number), node_id, Json.trusted(entry.text), action, extras))
    return steps


def _steps_told(history: list[_Entry], turns: dict[int, int]) -> list[Step]:
    """Steps of a file that only has a history: each assistant message is one, the message that follows its outcome."""
    steps = []
    for at, number in turns.items():
        entry = history[at]
        after = history[at + 1] if at + 1 < len(history) else None
        is_outcome = after is not None and after.value("role") in {"tool", "user"}
        observation = after.json("content") if after is not None and is_outcome else NULL
        action = _action(number, entry, entry, observation)
        steps.append(Step(_step_id(number), _agent(entry), Json.trusted(entry.text), action, {}))
    return steps


def _action(number: int, entry: _Entry, told: _Entry | None, observation: Json) -> ActionFields | None:
    command = entry.value("action")
    if not isinstance(command, str) or not command.strip():
        return None
    tool = _called_function(told) or command.split(maxsplit=1)[0]
    if not _is_storable(tool):
        tool = "unnamed"
    action: ActionFields = {
        "id": f"{_step_id(number)}-action",
        "tool": tool,
        "input": entry.json("action"),
        "output": observation,
    }
    duration = _milliseconds(entry.value("execution_time"))
    if duration is not None:
        action["duration_ms"] = duration
    return action


def _milliseconds(seconds: Any) -> Decimal | None:
    """Seconds as milliseconds, every digit kept; None for what is no number or has more digits than are stored."""
    if not isinstance(seconds, Decimal):
        return None
    sign, digits, exponent = seconds.as_tuple()
    return Decimal((sign, digits, exponent + 3)) if isinstance(exponent, int) and exponent >= -21 else None


def _called_function(told: _Entry | None) -> str | None:
    try:
        name = told.value("tool_calls")[0]["function"]["name"] if told else None
    except (TypeError, LookupError):
        # Older files have no tool calls beside the command text.
        return None
    return name if isinstance(name, str) and name else None


def _nodes(whole: _Entry, history: list[_Entry]) -> list[NodeFields]:
    model = _model(whole)
    nodes: dict[str, NodeFields] = {}
    for entry in history or [_Entry.of(b"{}")]:
        node = nodes.setdefault(_agent(entry), {"node_id": _agent(entry)})
        prompt = entry.word("content") if entry.value("role") == "system" else None
        if prompt and "system_prompt" not in node:
            node["system_prompt"] = prompt
        if model:
            node["llm_model"] = model
    return list(nodes.values())


def _model(whole: _Entry) -> str | None:
    config = whole.value("replay_config")
    try:
        name = (json.loads(config) if isinstance(config, str) else config)["agent"]["model"]["name"]
    except (TypeError, LookupError, ValueError):
        # The file does not say which model ran.
        return None
    return name if isinstance(name, str) and _is_storable(name) else None


def _messages(history: list[_Entry], turns: dict[int, int], step_count: int) -> list[MessageFields]:
    """The history in order; what comes between two turns was read by the later one."""
    messages: list[MessageFields] = []
    following = 0
    for at, entry in enumerate(history):
        message: MessageFields = {
            "id": f"message-{at:04d}",
            "seq": at,
            "role": entry.word("role") or "unknown",
            "payload": Json.trusted(entry.text),
        }
        if at in turns:
            following = turns[at] + 1
            message["origin_node_invocation_id"] = _step_id(turns[at])
            message["from_node_id"] = _agent(entry)
        else:
            message["to_node_id"] = _agent(entry)
            if following < step_count:
                message["target_node_invocation_id"] = _step_id(following)
        messages.append(message)
    return messages


def _step_id(number: int) -> str:
    return f"step-{number:04d}"


def _agent(entry: _Entry) -> str:
    return entry.word("agent") or "agent"


def _is_task(entry: _Entry) -> bool:
    return entry.value("role") == "user" and not entry.value("is_demo")


def _is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
