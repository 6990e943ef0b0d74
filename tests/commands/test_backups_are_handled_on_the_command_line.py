"""`cairn backup`, as a person types it, on a service that runs beside it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pyrage
import pytest

from app.client import Cairn as Client
from app.signing import new_seed, public_key_of
from tests.api_process import ApiProcess, serving
from tests.commands.test_the_operator_s_commands import Cairn
from tests.conftest import ADMIN_KEY, OBJECTS

SEED = new_seed()
PAYLOAD = {"said": "Grüße", "exactly": 1.0}


class Person(Cairn):
    """Somebody at a terminal, who works for a tenant of a running service."""

    def __init__(self, api: ApiProcess, tenant: str) -> None:
        super().__init__("postgresql://nobody@127.0.0.1:1/none", COLUMNS="160")
        self.environment |= {"CAIRN_URL": api.url, "CAIRN_KEY": ADMIN_KEY, "CAIRN_TENANT": tenant}
        self.client = Client(api.url, key=ADMIN_KEY, tenant=tenant)
        with Client(api.url, key=ADMIN_KEY) as operator:
            operator.tenants.ensure(tenant)

    def ids(self) -> list[str]:
        """The workflows of the tenant."""
        return sorted(workflow.id for workflow in self.client.workflows.list())


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own, without a .env file."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="module")
def api(kept_clone: Callable[[], Awaitable[str]]) -> Iterator[ApiProcess]:
    """A service that works in the background."""
    url = asyncio.run(_awaited(kept_clone()))
    with serving(
        url, background__enabled=True, signing__key=SEED, backups__idle_seconds=0.05,
        blobs__folder=OBJECTS / url.rsplit("/", 1)[1],
    ) as process:  # fmt: skip
        yield process


async def _awaited(made: Awaitable[str]) -> str:
    return await made


@pytest.fixture(scope="module")
def acme(api: ApiProcess) -> Person:
    """Somebody whose tenant has a few rows."""
    person = Person(api, "acme")
    for number in range(3):
        person.client.workflows.create(id=f"w{number}", name=f"Workflow {number}", metadata=PAYLOAD)
    return person


@pytest.fixture(scope="module")
def file(acme: Person, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of that tenant."""
    made = tmp_path_factory.mktemp("backups") / "acme.ndjson.zst"
    said = acme.does("backup", "create", "--label", "nightly", "--output", str(made))
    assert re.match(r"bak_\w+\n", said), said
    return made


@pytest.fixture
def elsewhere(api: ApiProcess, request: pytest.FixtureRequest) -> Person:
    """Somebody with another tenant, which is empty."""
    return Person(api, re.sub("[^a-z0-9]+", "-", request.node.name)[:60].strip("-"))


def test_a_backup_is_made_listed_and_verified_without_a_service(acme: Person, file: Path) -> None:
    listed = acme.does("backup", "list")
    assert re.search(r"completed +.* nightly", listed), listed
    told = Cairn("postgresql://nobody@127.0.0.1:1/none").does(
        "backup", "verify", str(file), "--public-key", public_key_of(SEED)
    )
    assert re.search(r"workflows +3 ", told)
    assert "is as it was written" in told
    assert "of tenant acme" in told
    assert f"Signed with {public_key_of(SEED)}" in told
    other = public_key_of(new_seed())
    assert f"to be signed with {other}" in acme.refuses("backup", "verify", str(file), "--public-key", other)


def test_a_file_is_restored_after_a_preview_and_a_second_time_changes_nothing(file: Path, elsewhere: Person) -> None:
    assert re.search(r"workflows +3 +0 ", elsewhere.does("backup", "restore", str(file), "--mode", "preview"))
    assert elsewhere.ids() == []
    assert re.search(r"workflows +3 +0 ", elsewhere.does("backup", "restore", str(file)))
    assert elsewhere.ids() == ["w0", "w1", "w2"]
    assert re.search(r"workflows +0 +3 ", elsewhere.does("backup", "restore", str(file)))


def test_what_is_there_with_other_content_is_named(file: Path, elsewhere: Person) -> None:
    elsewhere.client.workflows.create(id="w1", name="of somebody else")
    ended = elsewhere.run("backup", "restore", str(file))
    assert ended.exit_code == 1
    assert "restore_conflict" in ended.output
    assert "--on-conflict skip" in ended.output
    assert "workflows: w1" in ended.output
    assert elsewhere.ids() == ["w1"]
    assert re.search(
        r"workflows +2 +0 +1 ", elsewhere.does("backup", "restore", str(file), "--on-conflict", "overwrite")
    )


def test_a_replacement_is_asked_for_twice(file: Path, elsewhere: Person) -> None:
    elsewhere.client.workflows.create(id="of-before", name="goes")
    assert "Say --yes" in elsewhere.refuses("backup", "restore", str(file), "--mode", "replace")
    foretold = elsewhere.does("backup", "restore", str(file), "--mode", "replace", "--dry-run")
    assert re.search(r"workflows +3 +0 +0 +0 +0 +1", foretold), foretold
    assert "this is what it would do" in foretold
    assert elsewhere.ids() == ["of-before"]
    elsewhere.does("backup", "restore", str(file), "--mode", "replace", "--yes")
    assert elsewhere.ids() == ["w0", "w1", "w2"]


def test_an_encrypted_backup_is_opened_here_by_its_identity(acme: Person, elsewhere: Person, tmp_path: Path) -> None:
    identity = pyrage.x25519.Identity.generate()
    keys, other, made = tmp_path / "key.txt", tmp_path / "other.txt", tmp_path / "acme.age"
    keys.write_text(f"# created: today\n{identity}\n")
    other.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    acme.does("backup", "create", "--recipient", str(identity.to_public()), "--output", str(made))
    assert made.read_bytes().startswith(b"age-encryption.org/")
    assert "is encrypted" in acme.refuses("backup", "verify", str(made))
    assert "cannot be decrypted" in acme.refuses("backup", "verify", str(made), "--identity", str(other))
    assert "as it was written" in acme.does("backup", "verify", str(made), "--identity", str(keys))
    assert "cannot be decrypted" in elsewhere.refuses("backup", "restore", str(made), "--identity", str(other))
    elsewhere.does("backup", "restore", str(made), "--identity", str(keys))
    assert elsewhere.ids() == ["w0", "w1", "w2"]
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("place", [0.2, 0.9])
def test_a_flipped_byte_is_found_here_and_there(file: Path, elsewhere: Person, tmp_path: Path, place: float) -> None:
    damaged, content = tmp_path / "damaged.zst", bytearray(file.read_bytes())
    content[int(len(content) * place)] ^= 1
    damaged.write_bytes(content)
    assert "is damaged" in elsewhere.refuses("backup", "verify", str(damaged))
    assert re.search(r"backup_damaged.*\(check \w+.*byte \d+\)", elsewhere.refuses("backup", "restore", str(damaged)))
    assert elsewhere.ids() == []


def test_a_download_goes_on_where_it_broke_off(acme: Person, file: Path, tmp_path: Path) -> None:
    kept = next(backup for backup in acme.client.backups.list() if backup.label == "nightly")
    content, again = file.read_bytes(), tmp_path / "again.zst"
    part = tmp_path / f"again.zst.{kept.digest[:12]}.part"  # type: ignore[index]
    part.write_bytes(b"x" + content[1 : len(content) // 2])
    assert "instead of" in acme.refuses("backup", "download", kept.id, str(again))
    assert list(tmp_path.iterdir()) == []
    part.write_bytes(content[: len(content) // 2])
    acme.does("backup", "download", kept.id, str(again))
    assert again.read_bytes() == content
    assert list(tmp_path.iterdir()) == [again]
    assert "is there already" in acme.refuses("backup", "download", kept.id, str(again))
    acme.does("backup", "download", kept.id)
    assert Path(f"cairn-acme-{kept.id}.ndjson.zst").read_bytes() == content


def test_a_backup_that_the_service_keeps_is_restored_without_a_file(acme: Person, file: Path) -> None:
    kept = next(backup for backup in acme.client.backups.list() if backup.label == "nightly")
    assert re.search(r"workflows +0 +3 ", acme.does("backup", "restore", "--backup", kept.id))
    assert "Name a file" in acme.refuses("backup", "restore")
    assert "Name a file" in acme.refuses("backup", "restore", str(file), "--backup", kept.id)


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "is damaged"), (b"no zstd", "is damaged"), (None, "cannot be read")]
)
def test_what_is_no_backup_is_said_in_a_sentence(acme: Person, tmp_path: Path, content: bytes | None, why: str) -> None:
    if content is not None:
        (tmp_path / "f").write_bytes(content)
    assert why in acme.refuses("backup", "verify", str(tmp_path / "f"))
