"""What can go wrong here, beside the errors of the client."""

from __future__ import annotations


class StaleObjectError(RuntimeError):
    """An object was changed elsewhere since it was last read or saved here, and the save would undo that.

    Nothing was stored. `type`, `id` and `member` (a JSON Pointer, empty for the whole object) say where. Read the
    object again and make the change on what is there now.
    """

    def __init__(self, type: str, id: object, why: str, member: str = "") -> None:
        super().__init__(f"{type} {id!r} was not saved: {why}. Read it again and make the change on what is there now.")
        self.type = type
        self.id = id
        self.member = member


class UnknownSupervaizerError(RuntimeError):
    """The supervaizer that is installed is not made the way this adapter needs."""


class StoreInUseError(RuntimeError):
    """Others change the store so often that nothing could be done in a bounded number of tries."""
