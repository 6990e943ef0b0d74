"""Which members of a body stay text: read from the model that the body is validated by."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from pydantic import BaseModel

from app.http.verbatim import Verbatim


@dataclass(frozen=True)
class Plan:
    """How to cut one object: its verbatim members, its nested objects, its lists of nested objects.

    A null says that a verbatim member is not given, except where the member is `required`: there it is the payload.
    """

    raw: frozenset[str]
    objects: dict[str, Plan] = field(default_factory=dict)
    lists: dict[str, Plan] = field(default_factory=dict)
    required: frozenset[str] = frozenset()

    @cached_property
    def kept(self) -> frozenset[str]:
        """The members that are not simply decoded."""
        return self.raw | self.objects.keys() | self.lists.keys()


@lru_cache(maxsize=1024)
def plan_for(model: type[BaseModel], other: type[BaseModel] | None = None) -> Plan:
    """The plan of a model: members typed `Verbatim` (or a kind of it) stay raw; models and lists of models nest.

    With another model, the plan of a body that may be either.
    """
    if other is not None:
        one, two = plan_for(model), plan_for(other)
        return Plan(
            one.raw | two.raw,
            {**one.objects, **two.objects},
            {**one.lists, **two.lists},
            one.required | two.required,
        )
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
    required = {info.alias or name for name, info in model.model_fields.items() if info.is_required()}
    return Plan(frozenset(raw), objects, lists, frozenset(raw & required))


def _kinds(annotation: Any, many: bool = False) -> list[tuple[type, bool]]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _kinds(typing.get_args(annotation)[0], many)
    if origin in (typing.Union, types.UnionType):
        return [kind for part in typing.get_args(annotation) for kind in _kinds(part, many)]
    if origin in (list, tuple):
        return [kind for part in typing.get_args(annotation) for kind in _kinds(part, True)]
    return [(annotation, many)] if isinstance(annotation, type) else []
