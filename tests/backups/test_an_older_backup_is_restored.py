"""A backup that a release with an older schema made restores in this one."""

from __future__ import annotations

from pathlib import Path

from app.db.revision import revisions
from app.http.service import Service
from tests.backups.files import end_of, pieces_of
from tests.backups.rich import exported, restored, sections_of
from tests.conftest import Make, new_tenant

# Exported by the release whose newest migration was 0039.
FILE = Path(__file__).with_name("made_at_0039.ndjson.zst").read_bytes()


async def test_what_it_does_not_know_takes_its_default(fresh: Service) -> None:
    before = end_of(pieces_of(FILE)).manifest
    assert before.schema_revision == "0039"
    assert before.schema_revision in revisions()[:-1]
    async with await new_tenant(fresh) as client:
        told = sections_of(await restored(fresh, client, FILE, "preview"))
        found = sections_of(await restored(fresh, client, FILE))
        assert told == found
        assert {name: counts["created"] for name, counts in found.items()} == {
            one.name: one.rows for one in before.sections if one.name != "artifact_bytes"
        }
        again = sections_of(await restored(fresh, client, FILE, on_conflict="fail"))
        assert sum(counts["kept"] for counts in again.values()) == sum(counts["created"] for counts in found.values())
        generations = (await client.get("/v1/evolution-runs/run/generations")).json()["items"]
        assert {one["interrupted_at"] for one in generations} == {None}
        await Make(client).submission()
        after = end_of(pieces_of(await exported(fresh, client))).manifest
        assert after.schema_revision == revisions()[-1]
