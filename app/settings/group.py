"""What the groups of settings have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

MIB = 1024 * 1024


class Group(BaseModel):
    """A named part of the settings tree; frozen, closed to names it does not know, and no error tells a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
