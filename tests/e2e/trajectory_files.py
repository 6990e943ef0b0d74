"""Trajectory files for tests, and a way to find a slice of them that shares no code with the importer."""

from __future__ import annotations

import json
from pathlib import Path

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "trajectories"

HOSTILE = (
    rb'{"environment":"main","trajectory":[ {"action":"cat x\u0000y","observation":"cut \ud83d here","response":"r",'
    rb'"execution_time":0.10000000000000000001,"state":{"n":1.0,"n":1e400}},{"action":"","observation":null,'
    b'"response":"\xc3\xa9 \xe2\x80\xa8 done"}],\n"history" : ['
    b'{"role":"system","content":"be \\ud800 good","agent":"a/b"},\t'
    b'{"role":"user","content":[{"type":"text","text":"fix [bold]it[/bold] \xc2\x9b"}],"agent":"a/b"},'
    rb'{"role":"assistant","content":"r","agent":"a/b","tool_calls":[{"function":{"name":"bash","arguments":"{}"}}]},'
    rb'{"role":"tool","content":"cut \ud83d here","agent":"a/b"}, {"role":"assistant","content":"other","agent":"c"}],'
    rb'"info":{"exit_status":"exit_cost","submission":null,"model_stats":{"instance_cost":0.100000000000000001,'
    rb'"tokens_sent":9007199254740993}},"replay_config":"{\"agent\":{\"model\":{\"name\":\"m-1\"}}}","extra":1}'
)


def slice_at(content: bytes, *path: str | int) -> bytes:
    """The exact text of the value at a path, found with the standard library's decoder alone."""
    text = content.decode()
    at = _past_space(text, 0)
    for step in path:
        at = _member(text, at, step)
    return text[at : _end(text, at)].encode()


def _member(text: str, at: int, step: str | int) -> int:
    at = _past_space(text, at + 1)
    position = 0
    while text[at] not in "]}":
        name: str | int = position
        if isinstance(step, str):
            name, at = json.JSONDecoder().raw_decode(text, at)
            at = _past_space(text, _past_space(text, at) + 1)
        if name == step:
            return at
        at = _past_space(text, _end(text, at))
        at = _past_space(text, at + 1) if text[at] == "," else at
        position += 1
    raise LookupError(step)


def _end(text: str, at: int) -> int:
    return json.JSONDecoder(parse_int=str, parse_float=str).raw_decode(text, at)[1]


def _past_space(text: str, at: int) -> int:
    return at + len(text[at:]) - len(text[at:].lstrip(" \t\n\r")) if at < len(text) and text[at] in " \t\n\r" else at
