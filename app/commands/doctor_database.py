"""What `cairn doctor` finds in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg

from app.commands.doctor_memory import embedding_service, indexes_of_memory
from app.commands.finding import LOOK_SECONDS, Finding
from app.db.probe import NO_URL
from app.db.revision import revision_of
from app.settings import DatabaseSettings, Settings, WebhookSettings

POSTGRES_MIN = 18
# So many webhooks are looked at.
SECRETS_MAX = 10_000
TIME_OUTS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


async def examined_database(settings: Settings) -> AsyncIterator[Finding]:
    """What was found of PostgreSQL and of what lies in it, and whether the embedding service has its models."""
    database = settings.database
    try:
        connection = await asyncpg.connect(database.driver_url, timeout=LOOK_SECONDS, statement_cache_size=0)
    except ValueError:
        yield Finding("PostgreSQL", "wrong", NO_URL)
        return
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        yield Finding(
            "PostgreSQL",
            "wrong",
            f"It does not answer ({_brief(error)}); start it, or correct CAIRN_DATABASE__URL."
            " (Unset, and with `make run` or `cairn dev` running in this folder, theirs is looked at.)",
        )
        return
    try:
        yield _version(connection)
        yield await _schema(connection)
        yield await _pgvector(connection)
        yield await _indexes(connection)
        yield await _time_outs(connection, database)
        yield await _connections(connection, database)
        yield await _sealed(connection, settings.webhooks)
        yield await indexes_of_memory(connection, settings.memory)
        for found in await embedding_service(connection, settings.embedder):
            yield found
    finally:
        await connection.close(timeout=LOOK_SECONDS)


def _brief(error: BaseException) -> str:
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0][:120]}" if said else type(error).__name__


def _version(connection: asyncpg.Connection) -> Finding:
    version = connection.get_server_version()
    # Since 10 a version has two numbers, and the driver has the second one in its third place.
    told = f"{version.major}.{version.micro}"
    if version.major < POSTGRES_MIN:
        return Finding("PostgreSQL", "wrong", f"It is {told}; Cairn needs {POSTGRES_MIN} or newer.")
    return Finding("PostgreSQL", "ok", f"{told} answers.")


async def _schema(connection: asyncpg.Connection) -> Finding:
    revision = await revision_of(connection)
    if revision.fault:
        return Finding("schema", "wrong", revision.fault)
    return Finding("schema", "ok", f"It is at {revision.current}, as needed.")


async def _pgvector(connection: asyncpg.Connection) -> Finding:
    row = await connection.fetchrow(
        "SELECT default_version, installed_version, to_regtype('vector') IS NOT NULL AS is_found,"
        " (SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector') AS place"
        " FROM pg_available_extensions WHERE name = 'vector'"
    )
    if row is None:
        return Finding("pgvector", "wrong", "The server does not have it; install the package postgresql-18-pgvector.")
    if row["installed_version"] is None:
        return Finding("pgvector", "ok", f"{row['default_version']} is there to be created by a migration.")
    if not row["is_found"]:
        return Finding(
            "pgvector", "wrong", f"It lies in the schema {row['place']}, which this role's search_path does not have:"
            f" add it, as in ALTER DATABASE … SET search_path = public, {row['place']}.",
        )  # fmt: skip
    return Finding("pgvector", "ok", f"{row['installed_version']} is created.")


async def _indexes(connection: asyncpg.Connection) -> Finding:
    from app.db.migrate import BUILT_BY_THE_SERVICE  # noqa: PLC0415 - Alembic takes a while

    rows = await connection.fetch(
        "SELECT c.oid::regclass::text AS name, c.relname ~ $1 AS of_memory"
        " FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE NOT i.indisvalid ORDER BY 2, 1 LIMIT 20",
        BUILT_BY_THE_SERVICE,
    )
    if left := [row["name"] for row in rows if not row["of_memory"]]:
        return Finding("indexes", "wrong", f"An interrupted build left {', '.join(left)} invalid; run `cairn migrate`.")
    if rows:
        listed = ", ".join(row["name"] for row in rows)
        return Finding(
            "indexes", "note", f"{listed}: not built to its end yet. A `cairn worker`, or an API that runs the"
            " background work, builds it; searches compare every vector until then.",
        )  # fmt: skip
    return Finding("indexes", "ok", "All are valid.")


async def _sealed(connection: asyncpg.Connection, settings: WebhookSettings) -> Finding:
    """Whether the keys open what the webhooks that are sent to have sealed."""
    from app.webhooks.sealing import EncryptionKeyMissing, Seal  # noqa: PLC0415 - cryptography, of no other command

    if await connection.fetchval("SELECT to_regclass('webhooks')") is None:
        return Finding("sealing", "ok", "There are no webhooks.")
    rows = await connection.fetch(
        "SELECT secret, headers FROM webhooks WHERE enabled ORDER BY tenant_id, id LIMIT $1", SECRETS_MAX
    )
    seal = Seal(settings.encryption_keys.get_secret_value() if settings.encryption_keys else None)
    lost = 0
    for row in rows:
        try:
            for sealed in (row["secret"], row["headers"]):
                if sealed is not None:
                    seal.open(sealed)
        except EncryptionKeyMissing:
            lost += 1
    if lost:
        return Finding(
            "sealing", "wrong", f"No key in CAIRN_WEBHOOKS__ENCRYPTION_KEYS opens what {lost} of {len(rows)} webhooks"
            " have sealed, so nothing is sent to them: add the key that was used, after the others.",
        )  # fmt: skip
    return Finding("sealing", "ok", f"The keys open what {len(rows)} webhooks have sealed.")


async def _time_outs(connection: asyncpg.Connection, settings: DatabaseSettings) -> Finding:
    """A pooler refuses time-outs as start-up parameters; then the role must bring them."""
    if settings.session_settings:
        return Finding("time-outs", "ok", "Each session sets its own.")
    missing = []
    for name in TIME_OUTS:
        if await connection.fetchval("SELECT setting FROM pg_settings WHERE name = $1", name) == "0":
            missing.append(name)
    if missing:
        role = await connection.fetchval("SELECT current_user")
        return Finding(
            "time-outs", "wrong", f"The role {role} has no {', '.join(missing)}; set it, as in"
            f" ALTER ROLE {role} SET {missing[0]} = '30s'.",
        )  # fmt: skip
    return Finding("time-outs", "ok", "The role brings them.")


async def _connections(connection: asyncpg.Connection, settings: DatabaseSettings) -> Finding:
    most = int(await connection.fetchval("SELECT setting FROM pg_settings WHERE name = 'max_connections'"))
    if settings.pool_max >= most:
        return Finding(
            "connections", "wrong", f"Each process may open {settings.pool_max}, the server takes {most} in all;"
            " lower CAIRN_DATABASE__POOL_MAX.",
        )  # fmt: skip
    return Finding(
        "connections", "ok", f"The server takes {most}, each process opens up to {settings.pool_max} and one more."
    )
