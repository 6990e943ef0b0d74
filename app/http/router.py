"""Finds the route of a request on the raw path, so that an id may hold any character, percent-encoded."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Generic, Protocol, TypeVar
from urllib.parse import unquote_to_bytes

from app.errors import MalformedRequest, MethodNotAllowed, NotFound, invalid
from app.http.fields import ID_BYTES_MAX, NAME_BYTES_MAX, PATH_WORDS, RESERVED_IDS

# Parameters that no route stands beside, so that no word is taken there: the keys of contexts are words of agents.
NOT_BESIDE_ROUTES = frozenset({"key", "pinned"})
# Parameters that may name a path of a stream.
LONG = frozenset({"pinned"})


class Routed(Protocol):
    """What can be found: a path template, its methods, and the names of its parameters in order."""

    path: str
    path_names: list[str]

    @property
    def methods(self) -> Collection[str] | None: ...


Found = TypeVar("Found", bound=Routed)


class _Node(Generic[Found]):
    __slots__ = ("endpoints", "literals", "parameter")

    def __init__(self) -> None:
        self.literals: dict[str, _Node[Found]] = {}
        self.parameter: _Node[Found] | None = None
        self.endpoints: dict[str, Found] = {}


class Router(Generic[Found]):
    """A tree of path segments: a look-up costs the segments of the path, not the number of routes."""

    def __init__(self, endpoints: Iterable[Found]) -> None:
        self._root: _Node[Found] = _Node()
        for endpoint in endpoints:
            node = self._root
            for segment in endpoint.path.strip("/").split("/"):
                if segment.startswith("{"):
                    node.parameter = node.parameter or _Node()
                    node = node.parameter
                else:
                    node = node.literals.setdefault(segment, _Node())
            for method in endpoint.methods or ():
                node.endpoints[method] = endpoint

    def match(self, method: str, raw_path: str) -> tuple[Found, list[str]]:
        """The route and its path parameters, each decoded once.

        Raises `NotFound`, `MethodNotAllowed`, and `InvalidInput` for a segment that cannot be an id.
        """
        method = "GET" if method == "HEAD" else method
        segments = raw_path.split("/")[1:]
        node, values = self._walk(segments, literal_first=True)
        if node is None or method not in node.endpoints:
            # A word that is a route stands where an id may stand: then it is that id which is refused.
            other, other_values = self._walk(segments, literal_first=False)
            if other is not None and method in other.endpoints:
                node, values = other, other_values
        if node is None or not node.endpoints:
            raise NotFound("No route has this path; GET /docs shows them all, GET /openapi.json lists them.")
        endpoint = node.endpoints.get(method)
        if endpoint is None:
            allowed = sorted({*node.endpoints, *(("HEAD",) if "GET" in node.endpoints else ())})
            raise MethodNotAllowed(
                f"This path answers {', '.join(allowed)}.", headers={"Allow": ", ".join(allowed)}, allowed=allowed
            )
        return endpoint, [decode(value, name) for value, name in zip(values, endpoint.path_names, strict=True)]

    def _walk(self, segments: list[str], *, literal_first: bool) -> tuple[_Node[Found] | None, list[str]]:
        """Where the segments lead, and those that stand for parameters; a reserved word is an id if not literal."""
        node = self._root
        values: list[str] = []
        for segment in segments:
            below = node.literals.get(segment)
            if below is None or (not literal_first and segment in RESERVED_IDS and node.parameter is not None):
                below = node.parameter
                if below is None or not segment:
                    return None, values
                values.append(segment)
            node = below
        return node, values


def decode(segment: str, name: str) -> str:
    """A path segment as an id. Raises `MalformedRequest` for bad encoding, `InvalidInput` for what no id can be."""
    try:
        plain = segment.isascii() and "%" not in segment
        text = segment if plain else unquote_to_bytes(segment.encode("latin-1")).decode()
    except UnicodeDecodeError:
        raise MalformedRequest(f"The path's {name} is not UTF-8.") from None
    if "\x00" in text:
        raise invalid(name, "must not hold U+0000")
    if text in (PATH_WORDS if name in NOT_BESIDE_ROUTES else RESERVED_IDS):
        raise invalid(name, f"must not be the word {text!r}")
    most = NAME_BYTES_MAX if name in LONG else ID_BYTES_MAX
    if len(text) * 4 > most and len(text.encode()) > most:
        raise invalid(name, f"must be at most {most} bytes of UTF-8")
    return text
