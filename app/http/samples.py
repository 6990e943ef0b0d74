"""An example for every success answer of the document, composed from those of requests and from one short story.

A component that only answers hold has its example itself, so that it stands in the document once. An answer that is no
such component, or that is a moment of its own in a life, has its example at its media type.

A member has what is found first: `WITHIN` its component; in the resource that the component shows more or less of; the
example in its schema; `ANYWHERE` by its name; what the request of the same route gives; the first of its alternatives;
what any request gives by that name. So a new member needs a line where none of these is right: an example in the schema
of a request, else a line in `ANYWHERE`, or in `WITHIN` where it is another thing than its namesakes. `MOMENTS` tells
what is otherwise in the answer of one route, `BODIES` the answers that are no component.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.http.sample_components import WITHIN
from app.http.sample_members import ANYWHERE
from app.http.sample_moments import BODIES, SHOWING, moment_of
from app.http.sample_story import LEFT_OUT, Changed

Schema = dict[str, Any]
JSON = "application/json"
# What stands where nothing better is known; a test holds that none of it is served.
PLACEHOLDER = "string"
UNSAID = object()
# Too common to be of the same thing elsewhere.
COMMON = frozenset({"id", "name", "description"})
# A component of fewer members is no resource whose example could be that of a larger one.
ALIKE_MIN = 5
KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
}
PLAIN = {"string": PLACEHOLDER, "integer": 0, "number": 0.5, "boolean": False, "object": {}}


def tell_examples(document: dict[str, Any]) -> None:
    """Give every success answer of the document an example, but those that are bytes."""
    samples = Samples(document["components"]["schemas"])
    operations = [
        (path, method.upper(), operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    for _, _, operation in operations:
        samples.read(operation)
    for path, method, operation in operations:
        for status, media, content in answers(operation):
            if media == JSON and not _is_free(content["schema"]):
                samples.tell(f"{method} {path}", status, content)
            elif path in BODIES:
                content.setdefault("example", BODIES[path])
            elif media == JSON:
                content["example"] = samples.given(path.rpartition("/")[2])


def answers(operation: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The success answers: status, media type and content."""
    for status, answer in operation["responses"].items():
        for media, content in answer.get("content", {}).items() if status[0] == "2" else ():
            yield status, media, content


def short(name: str) -> str:
    """The name of a component without what tells it from its namesakes: its module, or which way it is read."""
    return name.rpartition("__")[2].partition("-")[0]


class Samples:
    """The examples of components, each made when it is first asked for."""

    def __init__(self, schemas: dict[str, Schema]) -> None:
        self._schemas = schemas
        self._asked: set[str] = set()
        self._given: dict[str, Any] = {}
        self._beside: dict[str, dict[str, Any]] = {}
        self._made: dict[str, dict[str, Any]] = {}

    def given(self, member: str) -> Any:
        """What requests give as the example of a member of this name."""
        return self._given.get(member, PLACEHOLDER)

    def read(self, operation: dict[str, Any]) -> None:
        """Take over what the request gives examples of; the answers of the operation are about the same things."""
        said: dict[str, Any] = {}
        for parameter in operation.get("parameters", ()):
            if parameter.get("in") == "query":
                said[parameter["name"]] = _own(parameter.get("schema", {}))
        for content in operation.get("requestBody", {}).get("content", {}).values():
            self._ask(content["schema"])
            for name in self._bodies(content["schema"]):
                said |= self._examples(name)
        said = {member: value for member, value in said.items() if value is not UNSAID}
        for member, value in said.items():
            self._given.setdefault(member, value)
        for _, _, content in answers(operation):
            for name in self._bodies(content.get("schema", {})):
                self._beside[name] = {**said, **self._beside.get(name, {})}

    def tell(self, route: str, status: str, content: dict[str, Any]) -> None:
        """Give an answer its example."""
        schema = content["schema"]
        name = _name(schema)
        whole = self._valued(schema)
        told = dict(whole)
        if not route.startswith("GET ") and route not in SHOWING:
            # A change answers without the payloads.
            told = {member: value for member, value in whole.items() if not self._is_payload(schema, member)}
        for member, value in moment_of(route, status, name).items():
            told[member] = _changed(told.get(member), value)
        told = _shown(told)
        if name is not None and name not in self._asked and told == whole:
            self._schemas[name]["examples"] = [whole]
        else:
            content["example"] = told

    def _examples(self, name: str) -> dict[str, Any]:
        whole = self._schemas[name].get("example", {})
        found = {member: whole.get(member, _own(schema)) for member, schema in self._properties(name).items()}
        return {member: value for member, value in found.items() if value is not UNSAID}

    def _properties(self, name: str) -> dict[str, Schema]:
        found: dict[str, Schema] = self._schemas[name].get("properties", {})
        return found

    def _bodies(self, schema: Schema) -> Iterator[str]:
        """The components that a body is: itself, its alternatives, and the items of a list of them."""
        name = _name(schema)
        if name is not None:
            yield name
            yield from self._bodies(self._properties(name).get("items", {}).get("items", {}))
        for one in schema.get("anyOf", ()):
            yield from self._bodies(one)

    def _ask(self, schema: Any) -> None:
        """Remember the components that requests hold: the example of an answer is not one of theirs."""
        for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            self._ask(value)
        name = _name(schema) if isinstance(schema, dict) else None
        if name is not None and name not in self._asked:
            self._asked.add(name)
            for member, value in self._examples(name).items():
                if member not in COMMON:
                    self._given.setdefault(member, value)
            self._ask(self._schemas[name])

    def _is_payload(self, schema: Schema, member: str) -> bool:
        name = next(self._bodies(schema))
        found = self._properties(name).get(member, {})
        return member not in self._schemas[name].get("required", ()) and not found.keys() & {"type", "anyOf", "$ref"}

    def _whole(self, name: str) -> dict[str, Any]:
        """The example of a component."""
        return _shown(self._known(name))

    def _known(self, name: str) -> dict[str, Any]:
        """Every member of a component, those too that its example leaves out."""
        if name not in self._made:
            known = {**self._base(name), **WITHIN.get(short(name), {})}
            self._made[name] = {
                member: self._told(known[member], schema) if member in known else self._member(name, member, schema)
                for member, schema in self._properties(name).items()
            }
        return self._made[name]

    def _told(self, value: Any, schema: Schema) -> Any:
        return _changed(self._valued(schema), value) if isinstance(value, Changed) else value

    def _base(self, name: str) -> dict[str, Any]:
        """The example of the resource that this is in more detail, or, where it is no resource itself, in less."""
        members = self._properties(name)
        alike = []
        for other in self._beside.keys() - self._asked - {name}:
            those = self._properties(other)
            less, more = (
                (members, those) if len(members) < len(those) and name not in self._beside else (those, members)
            )
            if ALIKE_MIN <= len(less) < len(more) and all(more.get(key) == schema for key, schema in less.items()):
                alike.append((len(more) - len(less), other))
        return self._known(min(alike)[1]) if alike else {}

    def _member(self, name: str, member: str, schema: Schema) -> Any:
        beside = self._beside.get(name, {})
        for value in (
            _own(schema),
            *(known[member] for known in (ANYWHERE, beside) if member in known),
            *schema.get("enum", ())[:1],
            self._given.get(member, UNSAID) if member not in COMMON else UNSAID,
        ):
            if value is LEFT_OUT or (value is not UNSAID and _fits(value, schema)):
                return value
        return self._valued(schema, bare=member == "items" and "next_cursor" in self._properties(name))

    def _valued(self, schema: Schema, *, bare: bool = False) -> Any:
        """A value of a schema; bare without the members that a list shows only where it is asked to."""
        name = _name(schema)
        if name is not None:
            needed = self._schemas[name].get("required", ())
            return {member: value for member, value in self._whole(name).items() if not bare or member in needed}
        if "anyOf" in schema:
            return self._valued(schema["anyOf"][0], bare=bare)
        if schema.get("type") == "array":
            kinds = [schema["items"]] if bare else schema["items"].get("anyOf", [schema["items"]])
            return [self._valued(kind, bare=bare) for kind in kinds]
        return [*schema.get("enum", ()), PLAIN.get(schema.get("type", ""))][0]


def _is_free(schema: Schema) -> bool:
    return not schema.keys() & {"$ref", "anyOf"}


def _name(schema: Schema) -> str | None:
    return schema["$ref"].rpartition("/")[2] if "$ref" in schema else None


def _own(schema: Schema) -> Any:
    """The example that a schema has, or the only value it takes."""
    for one in (schema, *schema.get("anyOf", ())):
        if one.get("examples"):
            return one["examples"][0]
        if "const" in one:
            return one["const"]
    return UNSAID


def _fits(value: Any, schema: Schema) -> bool:
    """Whether a value is of the kind of a schema; a test holds examples against the whole of it."""
    if "anyOf" in schema:
        return any(_fits(value, one) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema.get("type")
    if kind is None:
        return "$ref" not in schema
    if kind == "null" or value is None:
        return kind == "null" and value is None
    if kind == "array":
        return isinstance(value, list) and all(_fits(item, schema["items"]) for item in value)
    return isinstance(value, KINDS[kind]) and (kind == "boolean") == isinstance(value, bool)


def _shown(example: dict[str, Any]) -> dict[str, Any]:
    return {member: value for member, value in example.items() if value is not LEFT_OUT}


def _changed(usual: Any, value: Any) -> Any:
    if not isinstance(value, Changed):
        return value
    return [_changed(item, value) for item in usual] if isinstance(usual, list) else _shown({**usual, **value})
