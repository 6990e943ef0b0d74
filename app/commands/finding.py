"""What `cairn doctor` says of a part."""

from __future__ import annotations

from dataclasses import dataclass

# Each look at a part has so long.
LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class Finding:
    """What was seen of a part: `ok`, `note` (worth knowing) or `wrong` (with what to do)."""

    part: str
    verdict: str
    detail: str
