"""Two phases and a grace period, whatever was killed in between; what uploads left is swept."""

from __future__ import annotations

import os
import time
from pathlib import Path

import httpx
import pytest

from app.artifacts.jobs import Collection
from app.background.runner import drain
from app.background.work import JobRunner
from app.errors import Unavailable
from app.http.service import Service
from app.surface import KINDS
from tests.artifacts.artifacts import files_of, folder_of, hash_of, refer, sample, store
from tests.artifacts.collecting import age, collection_of, states
from tests.conftest import Make, new_tenant

LIMIT = 100


@pytest.fixture
async def own(fresh: Service) -> httpx.AsyncClient:
    """A client of a service whose artifacts are of this test alone."""
    return await new_tenant(fresh)


@pytest.fixture
def collection(fresh: Service) -> Collection:
    """Its collection."""
    return collection_of(fresh)


async def test_it_takes_two_phases_and_a_pause(own: httpx.AsyncClient, fresh: Service, collection: Collection) -> None:
    database, name = fresh.ground.database, hash_of(b"x")
    await store(own, b"x")
    await collection.collect(database, LIMIT)
    assert await states(fresh) == {name: "live"}
    await age(fresh)
    await collection.collect(database, LIMIT)
    assert await states(fresh) == {name: "marked"}
    assert (await own.get(f"/v1/artifacts/{name}")).content == b"x"
    await age(fresh)
    await collection.collect(database, LIMIT)
    assert (await states(fresh), files_of(own, fresh)) == ({name: "gone"}, [])
    assert (await own.get(f"/v1/artifacts/{name}")).status_code == 404
    assert (await own.get("/v1/artifacts")).json()["items"] == []


async def test_what_comes_back_is_another_object(
    own: httpx.AsyncClient, fresh: Service, collection: Collection
) -> None:
    database, name = fresh.ground.database, hash_of(b"x")
    await store(own, b"x")
    for _ in range(2):
        await age(fresh)
        await collection.collect(database, LIMIT)
    assert (await store(own, b"x")).status_code == 201
    assert files_of(own, fresh) == [f"{name}.2"]
    assert (await own.get(f"/v1/artifacts/{name}")).content == b"x"


@pytest.mark.parametrize("how", ["sent again", "referred to"])
async def test_what_is_marked_is_live_again_when_it_is(
    own: httpx.AsyncClient, fresh: Service, collection: Collection, how: str
) -> None:
    await store(own, b"x")
    await age(fresh)
    await collection.collect(fresh.ground.database, LIMIT)
    if how == "sent again":
        assert (await store(own, b"x")).status_code == 200
    else:
        invocation = (await Make(own).invocation())["id"]
        assert (await refer(own, invocation, "a", b"x")).status_code == 201
    assert await states(fresh) == {hash_of(b"x"): "live"}
    await collection.collect(fresh.ground.database, LIMIT)
    assert (await own.get(f"/v1/artifacts/{hash_of(b'x')}")).content == b"x"


async def test_what_is_referred_to_stays_as_long_as_it_is(
    own: httpx.AsyncClient, fresh: Service, collection: Collection
) -> None:
    database, invocation = fresh.ground.database, (await Make(own).invocation())["id"]
    await store(own, b"x")
    await refer(own, invocation, "a", b"x")
    for _ in range(4):
        await age(fresh)
        await collection.collect(database, LIMIT)
    assert await states(fresh) == {hash_of(b"x"): "live"}
    # When it was last seen in use was long ago: the whole grace period begins now.
    await age(fresh)
    await own.delete(f"/v1/invocations/{invocation}/artifacts/a")
    await collection.collect(database, LIMIT)
    assert await states(fresh) == {hash_of(b"x"): "live"}
    for _ in range(2):
        await age(fresh)
        await collection.collect(database, LIMIT)
    assert await states(fresh) == {hash_of(b"x"): "gone"}


@pytest.mark.parametrize("what", ["invocation", "workflow"])
async def test_what_is_deleted_whole_lets_go_of_artifacts_for_the_whole_grace_period(
    own: httpx.AsyncClient, fresh: Service, collection: Collection, what: str
) -> None:
    database, invocation = fresh.ground.database, await Make(own).invocation()
    path, large = f"/v1/invocations/{invocation['id']}", sample(100_000)
    await store(own, b"x")
    await refer(own, invocation["id"], "a", b"x")
    assert (await own.put(f"{path}/contexts/workflow/k", content=large)).status_code == 201
    assert (await own.post(f"{path}/end", json={"status": "completed"})).status_code == 200
    await age(fresh)
    if what == "invocation":
        assert (await own.delete(path)).status_code == 204
    else:
        answer = await own.delete(f"/v1/workflows/{invocation['workflow_id']}", params={"cascade": "true"})
        assert answer.status_code == 202
        await drain(JobRunner(KINDS, 30, fresh.ground.hints).run, database)
        assert (await own.get(path)).status_code == 404
    await collection.collect(database, LIMIT)
    assert await states(fresh) == {hash_of(b"x"): "live", hash_of(large): "live"}
    await age(fresh)
    await collection.collect(database, LIMIT)
    assert await states(fresh) == {hash_of(b"x"): "marked", hash_of(large): "marked"}


async def test_an_object_that_cannot_be_deleted_keeps_no_other(
    own: httpx.AsyncClient, fresh: Service, collection: Collection
) -> None:
    database, tenant = fresh.ground.database, folder_of(fresh) / own.headers["x-test-tenant"]
    await store(own, b"x")
    await age(fresh)
    await store(own, b"y")
    await age(fresh)
    await collection.collect(database, LIMIT)
    await age(fresh)
    stuck = tenant / hash_of(b"x")
    stuck.unlink()
    stuck.mkdir()
    with pytest.raises(Unavailable):
        await collection.collect(database, LIMIT)
    assert await states(fresh) == {hash_of(b"x"): "deleting", hash_of(b"y"): "gone"}
    stuck.rmdir()
    await collection.collect(database, LIMIT)
    assert set((await states(fresh)).values()) == {"gone"}


async def test_a_killed_collection_is_taken_up(own: httpx.AsyncClient, fresh: Service, collection: Collection) -> None:
    database = fresh.ground.database
    await store(own, b"x")
    await age(fresh)
    await collection.mark(database, LIMIT)
    await age(fresh)
    await collection.take(database, LIMIT)
    # It is killed here, and while nobody can read it the bytes come back; then another takes up the old object.
    assert (await states(fresh), files_of(own, fresh)) == ({hash_of(b"x"): "deleting"}, [hash_of(b"x")])
    invocation = (await Make(own).invocation())["id"]
    assert (await refer(own, invocation, "a", b"x")).status_code == 404
    assert (await store(own, b"x")).status_code == 201
    assert (await refer(own, invocation, "a", b"x")).status_code == 201
    await collection.collect(database, LIMIT)
    assert (await own.get(f"/v1/artifacts/{hash_of(b'x')}")).content == b"x"
    aged(folder_of(fresh) / own.headers["x-test-tenant"])
    await collection.sweep(database, LIMIT)
    assert files_of(own, fresh) == [f"{hash_of(b'x')}.2"]


def aged(folder: Path) -> None:
    """Two hours pass for the files of a tenant."""
    for file in folder.iterdir():
        os.utime(file, (time.time() - 7200,) * 2)


async def test_the_sweep_takes_what_uploads_left_and_nothing_else(
    own: httpx.AsyncClient, fresh: Service, collection: Collection
) -> None:
    database = fresh.ground.database
    kept, stray, young = sample(9), hash_of(b"stray"), hash_of(b"young")
    await store(own, kept)
    folder = folder_of(fresh) / own.headers["x-test-tenant"]
    for name in (stray, f"{stray}#1", f"{hash_of(kept)}#7", "README", f"{hash_of(b'old')}.3"):
        (folder / name).write_bytes(b"stray")
    foreign = folder_of(fresh) / "nobody" / stray
    foreign.parent.mkdir()
    foreign.write_bytes(b"of another service")
    aged(folder)
    aged(foreign.parent)
    (folder / young).write_bytes(b"young")
    (folder / f"{young}#1").write_bytes(b"young")
    # A few at a time: it goes on where it stood.
    while await collection.sweep(database, 2) == 2:
        pass
    await collection.collect(database, LIMIT)
    assert files_of(own, fresh) == sorted([hash_of(kept), "README", young, f"{young}#1"])
    assert foreign.exists()
    assert (await own.get(f"/v1/artifacts/{hash_of(kept)}")).content == kept
    # An object of the same bytes takes the place of none that is being deleted.
    assert (await store(own, b"stray")).status_code == 201
    assert f"{stray}.2" in files_of(own, fresh)


async def test_an_upload_that_never_ended_is_given_up(
    own: httpx.AsyncClient, fresh: Service, collection: Collection
) -> None:
    database = fresh.ground.database
    await store(own, b"x")
    async with database.writing() as transaction:
        await transaction.connection.execute("UPDATE artifacts SET state = 'uploading'")
    assert (await own.get(f"/v1/artifacts/{hash_of(b'x')}")).status_code == 404
    await collection.collect(database, LIMIT)
    assert await states(fresh) == {hash_of(b"x"): "uploading"}
    await age(fresh)
    await collection.collect(database, LIMIT)
    assert (await states(fresh), files_of(own, fresh)) == ({hash_of(b"x"): "gone"}, [])
