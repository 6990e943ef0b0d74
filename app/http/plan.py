"""Which members of a body stay text: read from the model that the body is validated by."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from pydantic import BaseModel

from app.http.verbatim import Verbatim


@dataclass(frozen=True, eq=False)
class Plan:
    """How to cut one object: its verbatim members, its nested objects, its lists of nested objects, and the others.

    A null says that a verbatim member is not given, except where the member is `required`: there it is the payload.
    Of the others, `plain` are those that are a text or an integer.
    """

    raw: frozenset[str]
    objects: dict[str, Plan] = field(default_factory=dict)
    lists: dict[str, Plan] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    plain: dict[str, type] = field(default_factory=dict)

    @cached_property
    def opaque(self) -> tuple[str, ...]:
        """The members that only their text tells: payloads, and what is neither a text nor an integer."""
        return tuple(sorted(self.raw | (self.others - self.plain.keys())))

    def merged(self, other: Plan) -> Plan:
        """The plan of an object that is of either kind."""
        kept = (self.raw | other.raw, {**self.objects, **other.objects}, {**self.lists, **other.lists})
        others = (self.others | other.others).difference(*kept)
        plain = {
            name: kind
            for name, kind in {**self.plain, **other.plain}.items()
            if name in others and all(plan.plain.get(name) is kind for plan in (self, other) if name in plan.others)
        }
        return Plan(*kept, self.required | other.required, others, plain)


@lru_cache(maxsize=1024)
def plan_for(model: type[BaseModel], other: type[BaseModel] | None = None) -> Plan:
    """The plan of a model: members typed `Verbatim` (or a kind of it) stay raw; models and lists of models nest.

    With another model, the plan of a body that may be either.
    """
    if other is not None:
        return plan_for(model).merged(plan_for(other))
    raw: set[str] = set()
    objects: dict[str, Plan] = {}
    lists: dict[str, Plan] = {}
    for name, info in model.model_fields.items():
        wire_name = info.alias or name
        for kind, many in _kinds(info.annotation):
            if issubclass(kind, Verbatim):
                raw.add(wire_name)
            elif issubclass(kind, BaseModel):
                (lists if many else objects)[wire_name] = plan_for(kind)
    fields = {info.alias or name: info for name, info in model.model_fields.items()}
    required = raw & {name for name, info in fields.items() if info.is_required()}
    others = frozenset(fields).difference(raw, objects, lists)
    kinds = {name: _plain(fields[name].annotation) for name in others}
    plain = {name: kind for name, kind in kinds.items() if kind is not None}
    return Plan(frozenset(raw), objects, lists, frozenset(required), others, plain)


def _plain(annotation: Any) -> type | None:
    """`str` or `int` where the annotation is one of them, or one of them or null."""
    kinds = set(_kinds(annotation)) - {(types.NoneType, False)}
    return next((kind for kind in (str, int) if kinds == {(kind, False)}), None)


def _kinds(annotation: Any, many: bool = False) -> list[tuple[type, bool]]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _kinds(typing.get_args(annotation)[0], many)
    if origin in (typing.Union, types.UnionType):
        return [kind for part in typing.get_args(annotation) for kind in _kinds(part, many)]
    if origin in (list, tuple):
        return [kind for part in typing.get_args(annotation) for kind in _kinds(part, True)]
    return [(annotation, many)] if isinstance(annotation, type) else []
