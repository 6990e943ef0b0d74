"""As whom PostgreSQL runs: it refuses root, so root lends it another identity without opening any folder."""

import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.embedded.fault import PartError

# Users that a system has for such work; initdb wants a user with a name.
SYSTEM_USERS = ("postgres", "nobody", "daemon")
COPIES = Path("/var/cache/cairn")


@dataclass(frozen=True)
class Identity:
    """How to run a program of PostgreSQL: words before its own, and the user to become."""

    prefix: tuple[str, ...] = ()
    user: int | None = None
    group: int | None = None

    @property
    def owner(self) -> int:
        """The user id that its files carry on disk."""
        return os.geteuid() if self.user is None else self.user

    def data_argument(self, data: Path) -> str:
        """Answers how to name the data folder to a program whose working directory it is.

        Another user may not pass the folders above it; through its own working directory it need not.
        """
        return str(data) if self.user is None else "/proc/self/cwd"


def choose_identity() -> Identity:
    """Answers this user, or for root: a user namespace in which root's files belong to another number.

    Where namespaces are refused (in most containers), a system user without rights.
    """
    if os.geteuid() != 0:
        return Identity()
    entry = _system_user()
    return _namespace(entry.pw_uid) or Identity(user=entry.pw_uid, group=entry.pw_gid)


def _system_user() -> pwd.struct_passwd:
    known = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    for name in SYSTEM_USERS:
        if name in known:
            return known[name]
    raise PartError("PostgreSQL refuses to run as root and there is no user `nobody`: start as an ordinary user.")


@cache
def _namespace(user: int) -> Identity | None:
    program = shutil.which("unshare")
    if program is None:
        return None
    prefix = (program, "--user", f"--map-user={user}", f"--map-group={user}")
    tried = subprocess.run([*prefix, "true"], capture_output=True, timeout=20, check=False)  # noqa: S603
    return Identity(prefix=prefix) if tried.returncode == 0 else None


def take_data(data: Path, identity: Identity) -> None:
    """Gives a data folder that root made under its other identity to this one; refuses anybody else's.

    Raises PartError when the folder belongs to a user that is neither.
    """
    owner = data.stat().st_uid
    if owner == identity.owner:
        return
    if os.geteuid() != 0 or owner not in (0, _system_user().pw_uid):
        raise PartError(f"{data} belongs to user {owner}: start as that user, or choose another folder.")
    group = os.getegid() if identity.group is None else identity.group
    for folder, _, files in os.walk(data):
        os.chown(folder, identity.owner, group)
        for name in files:
            os.chown(Path(folder) / name, identity.owner, group, follow_symlinks=False)


def readable_install(programs: Path, identity: Identity) -> Path:
    """Answers PostgreSQL's programs where the identity can run them: where they are, else a copy outside any home."""
    if identity.user is None or _can_run(programs, identity):
        return programs
    install = programs.parent
    program = (programs / "postgres").stat()
    same_bytes = f"{install.name} {program.st_size} {program.st_mtime_ns}".encode()
    copy = COPIES / f"postgres-{hashlib.sha256(same_bytes).hexdigest()[:16]}"
    try:
        if not copy.exists():
            _copy_install(install, copy)
    except OSError as error:
        raise PartError(f"PostgreSQL cannot be copied to {copy} ({error}): start as an ordinary user.") from error
    copied = copy / install.parent.name / install.name / programs.name
    if not _can_run(copied, identity):
        raise PartError(f"User {identity.user} cannot run PostgreSQL from {copied}: start as an ordinary user.")
    return copied


def _can_run(programs: Path, identity: Identity) -> bool:
    command = [str(programs / "postgres"), "--version"]
    try:
        run = subprocess.run(  # noqa: S603
            command,
            user=identity.user,
            group=identity.group,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=False,
        )
    except PermissionError:
        return False
    return run.returncode == 0


def _copy_install(install: Path, copy: Path) -> None:
    """Copies an install, and the wheel's libraries that it finds by a path relative to itself."""
    COPIES.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=COPIES) as made:
        whole = Path(made) / "copy"
        shutil.copytree(
            install,
            whole / install.parent.name / install.name,
            symlinks=True,
            ignore=shutil.ignore_patterns("include", "doc", "man"),
        )
        libraries = install.parent.with_name(install.parent.name + ".libs")
        if libraries.is_dir():
            shutil.copytree(libraries, whole / libraries.name, symlinks=True)
        for folder, _, _ in os.walk(whole):
            Path(folder).chmod(0o755)
        try:
            whole.rename(copy)
        except OSError:
            # Another start made the same copy meanwhile; then it is as good as ours.
            if not copy.is_dir():
                raise
