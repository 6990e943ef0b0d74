"""Whether something descends from itself: among the rows of a backup, and together with what is there already."""

from __future__ import annotations

import asyncio
from array import array

import asyncpg

from app.backups.staged import Staged

# So many edges are read at once.
EDGES_AT_ONCE = 10_000


async def has_cycle(connection: asyncpg.Connection, staged: Staged, tenant_id: str | None = None) -> bool:
    """Whether a row of the section is its own ancestor; with a tenant, by way of that tenant's rows as well.

    A row of the file counts as it is in the file. Time and memory grow with the rows that have a parent.
    """
    columns = [p.columns[0] for p in staged.section.parents if p.section == staged.section.name]
    if not columns:
        return False
    (key,) = staged.section.key
    edges = [f'SELECT r."{key}" AS child, r."{column}" AS parent FROM {staged.source()}' for column in columns]
    if tenant_id is not None:
        edges += [
            f'SELECT t."{key}", t."{column}" FROM {staged.section.table} AS t WHERE t.tenant_id = $1'
            f' AND NOT EXISTS (SELECT FROM {staged.source()} WHERE r."{key}" = t."{key}")'
            for column in columns
        ]
    sql = (
        f"WITH edge AS MATERIALIZED (SELECT * FROM ({' UNION ALL '.join(edges)}) AS e WHERE parent IS NOT NULL),"
        " numbered AS MATERIALIZED (SELECT id, row_number() OVER () - 1 AS number"
        " FROM (SELECT child AS id FROM edge UNION SELECT parent FROM edge) AS n)"
        " SELECT c.number AS child, p.number AS parent FROM edge"
        " JOIN numbered AS c ON c.id = edge.child JOIN numbered AS p ON p.id = edge.parent"
    )
    children, parents = array("q"), array("q")
    async with connection.transaction():
        async for row in connection.cursor(sql, *([] if tenant_id is None else [tenant_id]), prefetch=EDGES_AT_ONCE):
            children.append(row["child"])
            parents.append(row["parent"])
    return await asyncio.to_thread(_circular, children, parents)


def _circular(children: array[int], parents: array[int]) -> bool:
    """Take away whatever has no parent left, again and again; what stays is a cycle, or descends from one."""
    count = 1 + max(max(children, default=-1), max(parents, default=-1))
    waiting, starts = array("q", bytes(8 * count)), array("q", bytes(8 * (count + 1)))
    for child, parent in zip(children, parents, strict=True):
        waiting[child] += 1
        starts[parent + 1] += 1
    for number in range(count):
        starts[number + 1] += starts[number]
    heirs, filled = array("q", bytes(8 * len(children))), array("q", starts)
    for child, parent in zip(children, parents, strict=True):
        heirs[filled[parent]] = child
        filled[parent] += 1
    free = [number for number in range(count) if not waiting[number]]
    taken = 0
    while free:
        number = free.pop()
        taken += 1
        for place in range(starts[number], starts[number + 1]):
            heir = heirs[place]
            waiting[heir] -= 1
            if not waiting[heir]:
                free.append(heir)
    return taken < count
