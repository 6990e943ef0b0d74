"""Pages of a conversation's batches, forward and backward. Each read asks PostgreSQL: it never lags behind a write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.conversations.errors import OffsetBeyondHead
from app.conversations.offsets import NOW, SEQ_MAX, offset_of, seq_of
from app.conversations.store import SQL
from app.db.database import Reader

# A page ends before the batch that would make it larger, unless it is the page's first.
PAGE_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True)
class Batches:
    """A page: each batch's number and the exact text of its records; where to go on; what stands under the path.

    `incarnation` is None, and `head` -1, where nothing does.
    """

    found: Sequence[tuple[int, bytes]]
    next_seq: int
    up_to_date: bool
    incarnation: str | None
    head: int

    def body(self) -> bytes:
        """The page as JSON."""
        # Joined once: a page may hold tens of megabytes.
        parts = [b'{"batches":[']
        for place, (seq, records) in enumerate(self.found):
            parts += [b"," if place else b"", b'{"offset":"', offset_of(seq).encode(), b'","records":', records, b"}"]
        parts += [b'],"next_offset":"', offset_of(self.next_seq).encode(), b'","up_to_date":']
        parts += [b"true}" if self.up_to_date else b"false}"]
        return b"".join(parts)


def batch_json(seq: int, records: bytes) -> bytes:
    """A batch as JSON."""
    return b'{"offset":"%b","records":%b}' % (offset_of(seq).encode(), records)


def after_of(offset: str | None) -> int | None:
    """The number after which an offset reads: -1 without one, None for `now`. Raises `BadOffset`."""
    return None if offset == NOW else -1 if offset is None else seq_of(offset)


async def forward(
    reader: Reader,
    tenant_id: str,
    path: str,
    after: int | None,
    limit: int,
    *,
    of_incarnation: str | None = None,
    page_bytes_max: int = PAGE_BYTES_MAX,
) -> Batches:
    """The batches after a number, the oldest first; for None there are none, and the page stands at the head.

    An unknown path reads as empty, and so does one where another conversation stands than `of_incarnation`, whose
    numbers say nothing about it. Raises `OffsetBeyondHead`.
    """
    rows = await reader.rows(
        SQL["forward"],
        tenant_id=tenant_id,
        path=path,
        seq=SEQ_MAX if after is None else after,
        limit=limit,
        page_bytes_max=page_bytes_max,
    )
    if not rows:
        return Batches((), -1, True, None, -1)
    incarnation, head = rows[0]["incarnation"], rows[0]["next_seq"] - 1
    if of_incarnation not in (None, incarnation):
        return Batches((), -1, True, incarnation, head)
    after = head if after is None else after
    _check(after, head)
    found = [(row["seq"], row["records"]) for row in rows if row["seq"] is not None]
    reached = found[-1][0] if found else after
    return Batches(found, reached, reached == head, incarnation, head)


async def backward(
    reader: Reader, tenant_id: str, path: str, before: str, limit: int, *, page_bytes_max: int = PAGE_BYTES_MAX
) -> Batches:
    """The batches before an offset, the newest first; all of them for `now`. Raises `BadOffset`, `OffsetBeyondHead`.

    The page goes on before the offset of its last; it is up to date where nothing older is left.
    """
    seq = SEQ_MAX if before == NOW else seq_of(before)
    rows = await reader.rows(
        SQL["backward"], tenant_id=tenant_id, path=path, seq=seq, limit=limit, page_bytes_max=page_bytes_max
    )
    if not rows:
        return Batches((), -1, True, None, -1)
    incarnation, head = rows[0]["incarnation"], rows[0]["next_seq"] - 1
    if before != NOW:
        _check(seq, head)
    found = [(row["seq"], row["records"]) for row in rows if row["seq"] is not None]
    reached = found[-1][0] if found else -1 if before == NOW else seq
    return Batches(found, reached, reached <= 0, incarnation, head)


def _check(seq: int, head: int) -> None:
    if seq > head:
        raise OffsetBeyondHead("The conversation has no such offset yet.", head=offset_of(head))
