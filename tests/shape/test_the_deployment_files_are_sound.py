"""What an operator deploys with is judged by the tools that know those files best."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.settings import Settings
from tests.shape.compose import ROOT, compose, services

BIN = Path(sys.executable).parent


def folders_of_the_image() -> list[str]:
    """The folders that the image makes for its user; a named volume takes its owner from the one it is mounted on."""
    made = re.search(r"install --directory --owner=cairn --group=cairn (.+)", (ROOT / "Dockerfile").read_text())
    assert made is not None
    return made[1].split()


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_the_compose_file_is_valid() -> None:
    checked = run(
        str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(ROOT / "docker-compose.yml")
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.skipif(not shutil.which("hadolint", path=str(BIN)), reason="hadolint has no wheel for this platform")
def test_hadolint_finds_nothing() -> None:
    checked = run(str(BIN / "hadolint"), "--failure-threshold", "style", "Dockerfile")
    assert (checked.returncode, checked.stdout) == (0, ""), checked.stderr


def test_postgres_18_keeps_its_data_on_the_named_volume() -> None:
    """From 18 on the image's data folder is /var/lib/postgresql/18/docker; a volume at .../data would stay empty."""
    assert services()["postgres"]["volumes"] == ["postgres:/var/lib/postgresql"]


def test_artifacts_lie_on_one_volume_that_the_image_s_user_owns() -> None:
    found = re.search(r"CAIRN_BLOBS__FOLDER=(\S+)", (ROOT / "Dockerfile").read_text())
    assert found is not None
    assert found[1] in folders_of_the_image()
    for name in ("api", "worker"):
        assert f"artifacts:{found[1]}" in services()[name]["volumes"]


def test_uploads_wait_on_a_volume_that_the_image_s_user_owns_and_not_in_memory() -> None:
    api = services()["api"]
    folder = api["environment"]["CAIRN_HTTP__UPLOADS_FOLDER"]
    assert folder in folders_of_the_image()
    assert f"uploads:{folder}" in api["volumes"]
    assert not any(folder.startswith(memory) for memory in api["tmpfs"])


def test_every_volume_of_a_service_is_declared() -> None:
    used = {volume.partition(":")[0] for service in services().values() for volume in service.get("volumes", [])}
    assert used == set(compose()["volumes"])


def test_b40_nothing_starts_before_what_it_needs_is_there() -> None:
    """The health check of Postgres goes over TCP: the image's first-boot server has only a socket."""
    found = services()
    assert "--host=127.0.0.1" in found["postgres"]["healthcheck"]["test"]
    assert found["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("api", "worker"):
        assert found[name]["depends_on"] == {
            "postgres": {"condition": "service_healthy"},
            "redis": {"condition": "service_healthy"},
            "nats": {"condition": "service_healthy"},
            "migrate": {"condition": "service_completed_successfully"},
        }


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for service in services().values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8000:8000"]


def test_the_image_runs_as_nobody_in_particular() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER ")] == ["USER 10001:10001"]
    assert lines[-1] == 'CMD ["cairn", "serve"]'


def test_each_variable_of_a_container_is_a_setting() -> None:
    known = set(re.findall(r"^# (CAIRN_\w+)=", (ROOT / ".env.example").read_text(), re.M))
    used = set(services()["api"]["environment"]) | set(re.findall(r"CAIRN_\w+", (ROOT / "Dockerfile").read_text()))
    assert used - known == set()


def test_a_container_is_killed_only_after_the_service_has_had_its_grace() -> None:
    grace = Settings.model_fields["http"].get_default(call_default_factory=True).grace_seconds
    for name in ("api", "worker"):
        assert int(services()[name]["stop_grace_period"].removesuffix("s")) > grace
