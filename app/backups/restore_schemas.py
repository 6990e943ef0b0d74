"""How a backup is restored."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.http.fields import Id, Query


class RestoreQuery(Query):
    """What is restored, and what happens to what is there."""

    mode: Literal["preview", "merge", "replace"] = Field(
        "merge",
        description="`merge` adds what is not there; `replace` takes away first what the tenant has of the file's"
        " sections, and whatever refers to it; `preview` is a `merge` with `dry_run`.",
    )
    dry_run: bool = Field(False, description="Find out what the mode would do, and write nothing.")
    on_conflict: Literal["skip", "fail", "overwrite"] = Field(
        "fail",
        description="What happens where a row is there with other content: it stays, nothing at all is restored, or it"
        " becomes what the file says.",
    )
    backup_id: Id | None = Field(
        None, description="A backup of this tenant, which is restored instead of a body.", examples=[None]
    )
