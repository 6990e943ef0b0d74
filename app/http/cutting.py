"""Reads a JSON body by a model: members declared verbatim stay the exact bytes the client sent, the rest is decoded.

Opaque payloads are never decoded and dumped again. A body is cut into its members; a verbatim member is the slice of
the body between the end of its colon and the end of its value, and only its syntax and depth are looked at. Positions
are byte offsets: a body that is not ASCII is looked at as Latin-1, so that structure (always ASCII) keeps its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import accumulate
from json.scanner import c_make_scanner  # type: ignore[attr-defined]
from typing import Any

from pydantic import BaseModel

from app.errors import InvalidInput, MalformedRequest, invalid
from app.http.compact import cut_compact
from app.http.large import NestsDeeper, skip
from app.http.numbers import number
from app.http.plan import Plan, plan_for
from app.http.verbatim import STRINGS, Verbatim, members_once

_SPACE = re.compile(r"[ \t\n\r]*").match
_KEY = re.compile(r'[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*').match
_ESCAPED_KEY = re.compile(r'[ \t\n\r]*("[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")[ \t\n\r]*:[ \t\n\r]*').match
_NEXT = re.compile(r"[ \t\n\r]*([,\]}])").match
_NOT_BRACKETS = bytes(byte for byte in range(256) if chr(byte) not in "[]{}")
_ENVELOPE_LEVELS = 8
LARGE_BYTES = 1024 * 1024
# What no call takes is refused before it is built: more items than any setting allows, more members or a longer name
# than any model has, a larger array or object that is no payload.
ITEMS_MAX = 10_000
MEMBERS_MAX = 1000
NAME_MAX = 1000
PLAIN_BYTES_MAX = 4 * LARGE_BYTES
_STEPS = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")


class _Context:
    """What the standard library's scanner needs; numbers of verbatim values are never converted."""

    strict = True
    object_hook = None
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner's own protocol

    def __init__(
        self,
        parse_int: Callable[[str], Any],
        parse_float: Callable[[str], Any],
        object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
    ) -> None:
        self.parse_int, self.parse_float, self.object_pairs_hook = parse_int, parse_float, object_pairs_hook

    @staticmethod
    def parse_constant(name: str) -> Any:
        raise MalformedRequest(f"The body is not JSON: {name} is not a JSON number.")


_skip_value = c_make_scanner(_Context(str, str))
_decode_value = c_make_scanner(_Context(number, number, members_once))


def read_body(
    body: bytes, model: type[BaseModel], nesting_max: int = 512, other: type[BaseModel] | None = None
) -> dict[str, Any]:
    """The members of a JSON object, cut by the model's plan; ready for the model's own validation.

    Raises `MalformedRequest` (400) where the text is not JSON, or an object of the envelope names a member twice;
    `InvalidInput` (422) where it is no object or nests deeper than `nesting_max` within a payload.
    """
    check_utf8(body)
    plan = plan_for(model, other)
    if len(body) <= LARGE_BYTES and not nests_deeper(body, nesting_max):
        found = cut_compact(body, plan)
        if found is not None:
            return found
    return _cutter(body, nesting_max).document(plan)


def read_payload(body: bytes, nesting_max: int = 512) -> Verbatim:
    """A body that is one opaque payload. Raises `MalformedRequest`, or `InvalidInput` where it nests too deep."""
    check_utf8(body)
    return _cutter(body, nesting_max).whole()


def _cutter(body: bytes, nesting_max: int) -> _Cutter:
    if len(body) > LARGE_BYTES:
        return _LargeCutter(body, nesting_max)
    deep = nests_deeper(body, nesting_max)
    if deep and nests_deeper(body, nesting_max + _ENVELOPE_LEVELS):
        raise MalformedRequest(f"The body nests deeper than {nesting_max} levels.", limit=nesting_max)
    return _Cutter(body, nesting_max if deep else 0)


def check_utf8(body: bytes) -> None:
    """Raise `MalformedRequest` unless the bytes are UTF-8; in pieces, so that a large body is never held twice."""
    if body.isascii():
        return
    start, step = 0, 1 << 20
    try:
        while start < len(body):
            end = min(start + step, len(body))
            while end < len(body) and body[end] & 0xC0 == 0x80 and end - start > step - 4:
                end -= 1
            body[start:end].decode()
            start = end
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"The body is not UTF-8 at byte {start + error.start}.") from None


def _opens_more(text: bytes, levels: int) -> bool:
    """Whether there are more brackets than this; to look for the next is faster than to count, which sees each byte."""
    for bracket in b"[{":
        place = text.find(bracket)
        while place >= 0:
            levels -= 1
            if levels < 0:
                return True
            place = text.find(bracket, place + 1)
    return False


def nests_deeper(text: bytes, levels: int) -> bool:
    """Whether arrays and objects nest deeper than this; linear in the length of the text, whatever its shape."""
    if not _opens_more(text, levels):
        return False
    brackets = STRINGS.sub(b"", text).translate(_STEPS, _NOT_BRACKETS)
    return max(accumulate(memoryview(brackets).cast("b")), default=0) > levels


class _Cutter:
    """One pass over one body."""

    def __init__(self, body: bytes, nesting_max: int) -> None:
        self.body = body
        self.ascii = body.isascii()
        self.text = body.decode("ascii" if self.ascii else "latin-1")
        self.nesting_max = nesting_max

    def document(self, plan: Plan) -> dict[str, Any]:
        start = _SPACE(self.text, 0).end()  # type: ignore[union-attr]
        if self.text[start : start + 1] != "{":
            self._end(self.value_end(start))
            raise invalid("", "must be a JSON object")
        members, end = self.members(start, plan, "")
        self._end(end)
        return members

    def whole(self) -> Verbatim:
        start = _SPACE(self.text, 0).end()  # type: ignore[union-attr]
        end = self.value_end(start)
        self._end(end)
        return self.slice(start, end, "")

    def _end(self, position: int) -> None:
        if _SPACE(self.text, position).end() != len(self.text):  # type: ignore[union-attr]
            raise self.broken(position)

    def broken(self, position: int) -> MalformedRequest:
        return MalformedRequest(f"The body is not JSON at byte {position}.", position=position)

    def members(self, start: int, plan: Plan, pointer: str) -> tuple[dict[str, Any], int]:
        """The members of the object at `start`, and where it ends."""
        found: dict[str, Any] = {}
        text, position = self.text, start + 1
        position = _SPACE(text, position).end()  # type: ignore[union-attr]
        if text[position : position + 1] == "}":
            return found, position + 1
        while True:
            name, position = self.key(position)
            if len(found) == MEMBERS_MAX or len(name) > NAME_MAX:
                raise invalid(pointer, "has more members, or a member of a longer name, than this call knows")
            if name in found:
                raise MalformedRequest(f"The body names {pointer}/{name} twice.", pointer=f"{pointer}/{name}")
            found[name], position = self.member(name, position, plan, pointer)
            following = _NEXT(text, position)
            if following is None or following[1] == "]":
                raise self.broken(position)
            position = following.end()
            if following[1] == "}":
                return found, position

    def key(self, position: int) -> tuple[str, int]:
        match = _KEY(self.text, position)
        if match is not None:
            name = match[1] if self.ascii else match[1].encode("latin-1").decode()
            return name, match.end()
        match = _ESCAPED_KEY(self.text, position)
        if match is None:
            raise self.broken(position)
        try:
            return json.loads(match[1].encode("latin-1")), match.end()
        except ValueError:
            raise self.broken(position) from None

    def member(self, name: str, start: int, plan: Plan, pointer: str) -> tuple[Any, int]:
        opening = self.text[start : start + 1]
        if name in plan.raw:
            end = self.value_end(start)
            if self.text.startswith("null", start) and name not in plan.required:
                return None, end
            return self.slice(start, end, f"{pointer}/{name}"), end
        if opening == "{" and name in plan.objects:
            return self.members(start, plan.objects[name], f"{pointer}/{name}")
        if opening == "[" and name in plan.lists:
            return self.items(start, plan.lists[name], f"{pointer}/{name}")
        return self.value(start)

    def items(self, start: int, plan: Plan, pointer: str) -> tuple[list[Any], int]:
        found: list[Any] = []
        text = self.text
        position = _SPACE(text, start + 1).end()  # type: ignore[union-attr]
        if text[position : position + 1] == "]":
            return found, position + 1
        while True:
            position = _SPACE(text, position).end()  # type: ignore[union-attr]
            if text[position : position + 1] == "{":
                item, position = self.members(position, plan, f"{pointer}/{len(found)}")
            else:
                item, position = self.value(position)
            if len(found) == ITEMS_MAX:
                raise invalid(pointer, f"must have at most {ITEMS_MAX} items")
            found.append(item)
            following = _NEXT(text, position)
            if following is None or following[1] == "}":
                raise self.broken(position)
            position = following.end()
            if following[1] == "]":
                return found, position

    def slice(self, start: int, end: int, pointer: str) -> Verbatim:
        taken = Verbatim(memoryview(self.body)[start:end])
        if self.nesting_max and nests_deeper(taken, self.nesting_max):
            raise InvalidInput(
                f"{pointer} nests deeper than {self.nesting_max} levels.",
                errors=[{"pointer": pointer, "message": f"must not nest deeper than {self.nesting_max} levels"}],
            )
        return taken

    def value_end(self, start: int) -> int:
        try:
            end: int = _skip_value(self.text, start)[1]
        except (StopIteration, ValueError):
            raise self.broken(start) from None
        except RecursionError:
            raise MalformedRequest("The body nests too deep.") from None
        return end

    def value(self, start: int) -> tuple[Any, int]:
        """A decoded value: numbers keep their text as `int` or `Decimal`."""
        try:
            if self.ascii:
                return _decode_value(self.text, start)  # type: ignore[no-any-return]
            end = self.value_end(start)
            return _decode_value(self.body[start:end].decode(), 0)[0], end
        except StopIteration:
            raise self.broken(start) from None
        except RecursionError:
            raise MalformedRequest("The body nests too deep.") from None
        except ValueError as error:
            if isinstance(error, json.JSONDecodeError):
                raise self.broken(start) from None
            raise MalformedRequest(f"The value at byte {start} {error}.") from None


class _LargeCutter(_Cutter):
    """The same over a body so large that what it skips must not be built; depth is measured as it is skipped."""

    def __init__(self, body: bytes, levels: int) -> None:
        super().__init__(body, 0)
        self.levels = levels

    def value_end(self, start: int) -> int:
        try:
            return skip(self.body, start, self.levels)
        except NestsDeeper:
            message = f"must not nest deeper than {self.levels} levels"
            raise InvalidInput(f"A value {message}.", errors=[{"pointer": "", "message": message}]) from None
        except ValueError:
            raise self.broken(start) from None

    def value(self, start: int) -> tuple[Any, int]:
        if self.text[start : start + 1] in ("[", "{") and len(self.body) - start > PLAIN_BYTES_MAX:
            try:
                skip(self.body, start, self.levels, PLAIN_BYTES_MAX)
            except (NestsDeeper, ValueError):
                raise InvalidInput(
                    f"The value at byte {start} is no payload, and is no JSON of at most {PLAIN_BYTES_MAX} bytes.",
                    limit_bytes=PLAIN_BYTES_MAX,
                ) from None
        return super().value(start)
