"""A backup that a release with an older schema made restores in this one."""

from __future__ import annotations

from pathlib import Path

from app.db.revision import revisions
from app.db.sql import Statement
from app.http.service import Service
from tests.backups.files import end_of, pieces_of, written
from tests.backups.rich import exported, restored, sections_of
from tests.conftest import Make, new_tenant

AT = "2026-01-05T10:00:00+00:00"
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


async def test_what_is_overwritten_by_it_has_defaults_for_what_it_does_not_know(fresh: Service) -> None:
    async with await new_tenant(fresh) as client:
        sections_of(await restored(fresh, client, FILE))
        prune = Statement("UPDATE versions SET dsl = NULL, pruned_at = now() WHERE id = :id RETURNING id")
        pruned = (await client.get("/v1/versions?include=dsl")).json()["items"][0]
        await fresh.ground.database.rows(prune, id=pruned["id"])
        found = sections_of(await restored(fresh, client, FILE, "merge", "overwrite"))
        assert found["versions"]["changed"] == 1
        assert (await client.get("/v1/versions?include=dsl")).json()["items"][0] == pruned


async def test_a_rule_for_versions_of_before_there_was_a_choice_keeps_the_best(fresh: Service) -> None:
    rule = {"kind": "versions", "max_age_days": 30, "keep_latest": None, "keep_pinned": True, "keep_best": False,
            "keep_failed": False, "revision": 1, "created_at": AT, "updated_at": AT, "last_success_at": None,
            "last_counts": None, "last_error": 'not "keep_best":false'}  # fmt: skip
    for revision, keeps in (("0042", True), ("0043", False)):
        file = written({"retention_rules": (list(rule), [rule])}, schema_revision=revision)
        async with await new_tenant(fresh) as client:
            sections_of(await restored(fresh, client, file))
            told = (await client.get("/v1/retention")).json()["kinds"]["versions"]
            assert (told["rule"]["keep_best"], told["last_error"]) == (keeps, rule["last_error"])
