"""What Supervaizer's own tests of its storage expect, one by one, of the storage over HTTP."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path
from typing import Any

import pytest
from supervaizer import storage as module
from supervaizer.admin.routes import get_dashboard_stats
from supervaizer.case import Case
from supervaizer.job import Job, Jobs
from supervaizer.lifecycle import EntityEvents, EntityStatus
from supervaizer.server_info import ServerInfo, get_server_info_from_storage

from app.http.fields import RESERVED_IDS
from cairn_supervaizer import CairnStorage, Installed, StaleObjectError
from tests.supervaizer import entities
from tests.supervaizer.conftest import Controllers


def opened(db_path: str | None = None) -> Any:
    """The StorageManager of a process that has not made one yet."""
    manager: Any = module.StorageManager
    cells = dict(zip(manager.__code__.co_freevars, manager.__closure__, strict=True))
    cells["instances"].cell_contents.clear()
    return manager(db_path=db_path)


def keeps_objects(storage: Any) -> None:
    """It stores, gives and deletes one."""
    storage.save_object("Job", {"id": "j", "name": "kept"})
    assert storage.get_object_by_id("Job", "j") == {"id": "j", "name": "kept"}
    assert storage.delete_object("Job", "j") is True
    assert storage.get_object_by_id("Job", "j") is None


class TestWhereObjectsAreKept:
    def test_without_a_path_it_is_the_store_that_was_installed(self, installed: Installed) -> None:
        assert module.StorageManager() is installed.storage is module.storage_manager
        keeps_objects(opened())

    def test_it_is_that_store_too_where_persistence_is_on(
        self, installed: Installed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(module, "PERSISTENCE_ENABLED", True)
        monkeypatch.setattr(module, "DATA_STORAGE_PATH", str(tmp_path))
        keeps_objects(opened())
        assert list(tmp_path.iterdir()) == []

    def test_a_path_is_a_store_of_its_own_and_no_file(self, installed: Installed, tmp_path: Path) -> None:
        storage = opened(str(tmp_path / "entities.json"))
        keeps_objects(storage)
        storage.save_object("Job", {"id": "j"})
        assert installed.storage.get_objects("Job") == []
        assert opened(str(tmp_path / "entities.json")).get_objects("Job") == [{"id": "j"}]
        assert list(tmp_path.iterdir()) == []

    def test_memory_stays_in_memory(self, installed: Installed) -> None:
        storage = opened(":memory:")
        assert not isinstance(storage, CairnStorage)
        storage.save_object("Job", {"id": "j"})
        assert installed.storage.get_objects("Job") == []

    def test_it_has_what_others_look_at(self, storage: CairnStorage) -> None:
        assert isinstance(storage._lock, type(threading.Lock()))
        assert storage._db.tables() == set()
        assert storage.db_path.absolute() == storage.db_path
        storage.save_object("ServerInfo", {"id": "server_instance"})
        assert storage._db.tables() == {"ServerInfo"}


class TestObjects:
    def test_what_is_saved_is_read_as_it_was(self, storage: CairnStorage) -> None:
        saved = {"id": "1", "name": "Ä \U0001f600", "nested": {"n": [1, 1.5, 2**70, True, None, "\0", "\ud800"]}}
        storage.save_object("Anything", saved)
        assert storage.get_object_by_id("Anything", "1") == saved
        assert storage.get_objects("Anything") == [saved]

    @pytest.mark.parametrize("nameless", [{}, {"id": None}, {"id": ""}, {"id": 0}])
    def test_an_object_without_an_id_is_refused_and_not_shown(
        self, storage: CairnStorage, nameless: dict[str, Any]
    ) -> None:
        with pytest.raises(ValueError, match="§SSSS01 Object must have an 'id' field") as refused:
            storage.save_object("Job", nameless | {"token": "canary"})
        assert "canary" not in str(refused.value)

    @pytest.mark.parametrize(("value", "error"), [({1, 2}, TypeError), (b"x", TypeError), (float("nan"), ValueError)])
    def test_what_json_has_not_is_refused_and_nothing_is_stored(
        self, storage: CairnStorage, value: object, error: type[Exception]
    ) -> None:
        storage.save_object("Job", {"id": "j", "n": 1})
        with pytest.raises(error):
            storage.save_object("Job", {"id": "j", "n": 2, "value": value})
        assert storage.get_object_by_id("Job", "j") == {"id": "j", "n": 1}

    def test_all_objects_of_a_type_come_in_the_order_of_their_first_save(self, storage: CairnStorage) -> None:
        for number in range(12):
            storage.save_object("Job", {"id": f"j{number}", "n": number})
        storage.save_object("Job", {"id": "j0", "n": 99})
        storage.save_object("Case", {"id": "c"})
        assert [one["id"] for one in storage.get_objects("Job")] == [f"j{number}" for number in range(12)]
        assert storage.get_objects("Unknown") == []

    def test_they_come_from_every_page(self, storage: CairnStorage, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cairn_supervaizer.objects.PAGE_OBJECTS", 2)
        for number in range(5):
            storage.save_object("Job", {"id": f"j{number}"})
        assert [one["id"] for one in storage.get_objects("Job")] == ["j0", "j1", "j2", "j3", "j4"]

    def test_a_save_merges_the_members_of_the_top(self, storage: CairnStorage) -> None:
        storage.save_object("Job", {"id": "j", "kept": 1, "nested": {"a": 1, "b": 2}})
        storage.save_object("Job", {"id": "j", "nested": {"a": 3}})
        assert storage.get_object_by_id("Job", "j") == {"id": "j", "kept": 1, "nested": {"a": 3}}

    def test_an_object_is_found_by_its_id_or_is_none(self, storage: CairnStorage) -> None:
        storage.save_object("Job", {"id": "j"})
        assert storage.get_object_by_id("Job", "j") == {"id": "j"}
        assert [storage.get_object_by_id("Job", other) for other in ("J", "", None, "j ")] == [None] * 4

    def test_what_is_read_is_a_copy_of_ones_own(self, storage: CairnStorage) -> None:
        storage.save_object("Job", {"id": "j", "nested": {"n": 1}})
        for read in (storage.get_object_by_id("Job", "j"), storage.get_objects("Job")[0]):
            assert read is not None
            read["nested"]["n"] = 2
        assert storage.get_object_by_id("Job", "j") == {"id": "j", "nested": {"n": 1}}

    def test_ids_are_told_apart_by_their_type(self, storage: CairnStorage) -> None:
        ids: list[Any] = [5, "5", "json:5", 'json:"5"', 1.5, "a/b?c#d[é", "\0", "x" * 300, "x" * 301]
        # Words that no document can be named by.
        ids += sorted(RESERVED_IDS)
        for number, one in enumerate(ids):
            storage.save_object("Job", {"id": one, "n": number})
        assert [storage.get_object_by_id("Job", one) for one in ids] == [
            {"id": one, "n": number} for number, one in enumerate(ids)
        ]
        assert [one["id"] for one in storage.get_objects("Job")] == ids
        assert storage.get_object_by_id("Job", 5.0) == {"id": 5, "n": 0}
        assert storage.delete_object("Job", "5")
        assert storage.get_object_by_id("Job", 5) is not None

    def test_a_deleted_object_is_gone_and_deleting_it_again_is_false(self, storage: CairnStorage) -> None:
        storage.save_object("Job", {"id": "j"})
        assert storage.delete_object("Job", "j") is True
        assert storage.get_object_by_id("Job", "j") is None
        assert [storage.delete_object("Job", one) for one in ("j", "never", "", None)] == [False] * 4
        storage.save_object("Job", {"id": "j", "again": True})
        assert storage.get_object_by_id("Job", "j") == {"id": "j", "again": True}

    def test_a_reset_empties_every_type_of_this_store_only(self, controllers: Controllers) -> None:
        storage, other = controllers.storage(), controllers.storage(store="other")
        for one in (storage, other):
            one.save_object("Job", {"id": "j"})
            one.save_object("Case", {"id": "c"})
        storage.reset_storage()
        assert (storage.get_objects("Job"), storage.get_objects("Case")) == ([], [])
        assert (other.get_objects("Job"), other.get_objects("Case")) == ([{"id": "j"}], [{"id": "c"}])
        storage.save_object("Job", {"id": "j", "agent_parameters": ["canary"]})
        assert storage.get_objects("Job") == [{"id": "j"}]

    def test_the_cases_of_a_job_are_those_that_name_it(self, storage: CairnStorage) -> None:
        for number, owner in enumerate(["j1", "j2", "j1", 1]):
            storage.save_object("Case", {"id": f"c{number}", "job_id": owner})
        assert [one["id"] for one in storage.get_cases_for_job("j1")] == ["c0", "c2"]
        assert [one["id"] for one in storage.get_cases_for_job(1)] == ["c3"]
        assert storage.get_cases_for_job("nobody's") == []

    def test_a_case_that_cannot_be_indexed_is_found_by_the_job_that_names_it(self, storage: CairnStorage) -> None:
        storage.save_object("Job", {"id": "j", "case_ids": ["gone", "odd", "plain", "another's"]})
        for one in ({"id": "odd", "text": "\0"}, {"id": "plain"}, {"id": "another's", "job_id": "k"}):
            storage.save_object("Case", {"job_id": "j", **one})
        assert [one["id"] for one in storage.get_cases_for_job("j")] == ["plain", "odd"]

    def test_a_process_that_was_forked_has_connections_of_its_own(self, storage: CairnStorage) -> None:
        storage.save_object("Job", {"id": "parent's"})
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=storage.save_object, args=("Job", {"id": f"{n}"})) for n in range(3)]
        for child in children:
            child.start()
        for _ in range(20):
            assert storage.get_object_by_id("Job", "parent's") == {"id": "parent's"}
        for child in children:
            child.join(30)
        assert [child.exitcode for child in children] == [0, 0, 0]
        assert len(storage.get_objects("Job")) == 4

    def test_five_threads_save_and_read_ten_objects_each(self, storage: CairnStorage) -> None:
        wrong: list[object] = []

        def work(thread: int) -> None:
            try:
                for number in range(10):
                    one = {"id": f"{thread}-{number}", "thread": thread}
                    storage.save_object("Job", one)
                    assert storage.get_object_by_id("Job", one["id"]) == one
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(5)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert wrong == []
        assert len(storage.get_objects("Job")) == 50

    def test_after_closing_it_nothing_works_and_closing_it_again_is_nothing(self, storage: CairnStorage) -> None:
        storage.close()
        storage.close()
        with pytest.raises(ValueError, match="closed"):
            storage.get_objects("Job")


class Entity:
    """An entity as a user of the repositories may have one."""

    def __init__(self, id: str, name: str, status: str = "stopped", finished_at: object = None) -> None:
        self.id, self.name, self.status, self.finished_at = id, name, status, finished_at

    @property
    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


class TestRepositories:
    def test_a_repository_has_the_name_of_its_class_and_the_storage_it_is_given(self, storage: CairnStorage) -> None:
        repository = module.EntityRepository(Entity, storage)  # type: ignore[arg-type]
        assert (repository.entity_class, repository.type_name, repository.storage) == (Entity, "Entity", storage)

    def test_an_entity_is_saved_found_and_deleted(self, storage: CairnStorage) -> None:
        repository: Any = module.EntityRepository(Entity, storage)  # type: ignore[arg-type]
        assert repository.get_all() == []
        repository.save(Entity("e1", "one"))
        repository.save(Entity("e2", "two"))
        assert (repository.get_by_id("e1").name, repository.get_by_id("e3")) == ("one", None)
        assert [(type(one), one.name) for one in repository.get_all()] == [(Entity, "one"), (Entity, "two")]
        assert (repository.delete("e1"), repository.delete("e1"), repository.delete("e3")) == (True, False, False)
        assert repository.get_by_id("e1") is None

    def test_the_factories_make_repositories_of_jobs_and_cases(self, installed: Installed) -> None:
        jobs, cases = module.create_job_repository(), module.create_case_repository()
        assert (jobs.type_name, cases.type_name) == ("Job", "Case")
        assert jobs.storage is cases.storage is installed.storage  # type: ignore[comparison-overlap]


class TestLifecycle:
    def test_a_transition_is_saved(self, storage: CairnStorage) -> None:
        entity: Any = Entity("e", "one", EntityStatus.STOPPED)
        lifecycle: Any = module.PersistentEntityLifecycle
        assert lifecycle.transition(entity, EntityStatus.IN_PROGRESS, storage) == (True, "")
        assert storage.get_object_by_id("Entity", "e") == entity.to_dict | {"status": "in_progress"}

    def test_an_event_is_saved(self, storage: CairnStorage) -> None:
        entity: Any = Entity("e", "one", EntityStatus.STOPPED)
        lifecycle: Any = module.PersistentEntityLifecycle
        assert lifecycle.handle_event(entity, EntityEvents.START_WORK, storage) == (True, "")
        assert (storage.get_object_by_id("Entity", "e") or {})["status"] == "in_progress"

    def test_what_is_not_allowed_is_not_saved(self, storage: CairnStorage) -> None:
        entity: Any = Entity("e", "one", EntityStatus.COMPLETED)
        lifecycle: Any = module.PersistentEntityLifecycle
        done, why = lifecycle.transition(entity, EntityStatus.IN_PROGRESS, storage)
        assert (done, "Invalid transition" in why) == (False, True)
        done, why = lifecycle.handle_event(entity, EntityEvents.START_WORK, storage)
        assert (done, "Invalid event" in why) == (False, True)
        assert storage.get_object_by_id("Entity", "e") is None


class TestJobsAndCases:
    def test_a_job_is_stored_as_it_is(self, installed: Installed) -> None:
        job = entities.job(metadata={"source": "mail"})
        assert installed.storage.get_object_by_id("Job", "job_1") == job.to_dict
        assert job.to_dict["status"] == "in_progress"

    def test_a_case_is_stored_without_the_key_of_its_account(self, installed: Installed) -> None:
        case = entities.case()
        expected = case.to_dict
        del expected["account"]["api_key"]
        assert installed.storage.get_object_by_id("Case", "case_1") == expected

    def test_a_case_is_known_to_its_job_and_found_by_it(self, installed: Installed) -> None:
        job = entities.job()
        case = entities.case()
        assert job.case_ids == [case.id]
        assert (installed.storage.get_object_by_id("Job", job.id) or {})["case_ids"] == [case.id]
        assert [one["id"] for one in installed.storage.get_cases_for_job(job.id)] == [case.id]
        job.remove_case_id(case.id)
        assert (installed.storage.get_object_by_id("Job", job.id) or {})["case_ids"] == []

    def test_a_job_that_is_not_in_the_registry_is_found_in_the_storage(self, installed: Installed) -> None:
        entities.job()
        Jobs().reset()
        assert Jobs().get_job("job_1") is None
        assert Jobs().get_job("job_1", agent_name="another", include_persisted=True) is None
        found = Jobs().get_job("job_1", agent_name="agent_1", include_persisted=True)
        assert (type(found), found and found.name) == (Job, "A mission")
        assert Jobs().get_job("never", include_persisted=True) is None

    def test_an_update_that_studio_refuses_is_not_stored(self, installed: Installed) -> None:
        class Refusing(entities.QuietAccount):
            def send_update_case_sync(self, case: Case, update: Any) -> Any:
                raise ConnectionError("Studio is away")

        account = Refusing(workspace_id="ws_1", api_key="sk", api_url="https://studio.invalid")
        case = entities.case(account=account)
        with pytest.raises(ConnectionError):
            case.update_sync(entities.step("One"))
        assert (installed.storage.get_object_by_id("Case", case.id) or {})["updates"] == []

    def test_what_the_server_says_of_itself_is_kept(self, installed: Installed) -> None:
        info = ServerInfo(
            host="127.0.0.1", port=8000, api_version="v1", environment="test", agents=[], start_time=1.5,
            created_at="2026-11-01T10:00:00", updated_at="2026-11-01T10:00:00",
        )  # fmt: skip
        installed.storage.save_object("ServerInfo", info.model_dump())
        assert get_server_info_from_storage() == info

    def test_the_pages_of_the_admin_count_what_is_stored(self, installed: Installed) -> None:
        entities.job(), entities.case(), entities.case(case_id="case_2").close_sync({"answer": 42})
        stats = get_dashboard_stats(module.StorageManager())
        assert (stats.jobs["total"], stats.cases["completed"], stats.collections) == (1, 1, 2)

    def test_a_job_id_that_another_agent_has_is_refused(self, installed: Installed) -> None:
        entities.job()
        Jobs().reset()
        installed.storage._known.clear()
        with pytest.raises(StaleObjectError, match="'agent_1'"):
            Job.new(entities.context("job_1"), "agent_2")
