"""The spaces of tenants as this process knows them, so that neither a write nor a search reads them first."""

from __future__ import annotations

from app.db.database import Reader
from app.memory.errors import MemorySpaceNotFound
from app.memory.space_store import Space, missing, spaces_of

Spaces = tuple[Space, ...]


class HeldSpaces:
    """The spaces of tenants as this process last read them; a write finds out by itself that they are others by now.

    So a write needs no read before it. It says which revisions it was made for (`known`), and where they are no longer
    those of the database it does nothing: then they are read again.
    """

    TENANTS_MAX = 10_000

    def __init__(self) -> None:
        self._spaces: dict[str, Spaces] = {}

    async def of(self, reader: Reader, tenant_id: str) -> Spaces:
        """The spaces, one of them active. Raises `MemorySpaceMissing` where there is none."""
        return self._spaces.get(tenant_id) or await self.again(reader, tenant_id)

    async def again(self, reader: Reader, tenant_id: str) -> Spaces:
        """The same, as they now are."""
        spaces = await spaces_of(reader, tenant_id)
        self._spaces.pop(tenant_id, None)
        if not spaces:
            raise missing()
        if len(self._spaces) >= self.TENANTS_MAX:
            del self._spaces[next(iter(self._spaces))]
        self._spaces[tenant_id] = spaces
        return spaces


def known(spaces: Spaces) -> list[str]:
    """What `cairn_hold_spaces` compares with the spaces of the database."""
    return [f"{space.number}@{space.revision}" for space in spaces]


def active_of(spaces: Spaces) -> Space:
    """The active one of a tenant's spaces."""
    return next(space for space in spaces if space.active)


def named_of(spaces: Spaces, name: str | None) -> Space:
    """The one with this name, or the active one. Raises `MemorySpaceNotFound`."""
    if name is None:
        return active_of(spaces)
    for space in spaces:
        if space.name == name:
            return space
    raise MemorySpaceNotFound("There is no such space.", name=name)
