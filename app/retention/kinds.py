"""What may leave, kind by kind: when its age begins, and what keeps it."""

from __future__ import annotations

from app.db.sql import Statement
from app.retention.kind import CUTOFF, Kind, pinned


def _letter(source: str, alias: str) -> str:
    return (
        f"EXISTS (SELECT FROM dead_letters AS l WHERE l.tenant_id = :tenant_id AND l.subject = {alias}.id"
        f" AND l.source = '{source}')"
    )


# Two indexes, each looked into for one row.
DESCENDED = (
    "(EXISTS (SELECT FROM versions AS c WHERE c.tenant_id = t.tenant_id AND c.parent1_id = t.id)"
    " OR EXISTS (SELECT FROM versions AS c WHERE c.tenant_id = t.tenant_id AND c.parent2_id = t.id))"
)
DEAD_LETTERS = Kind("dead_letters", "dead_letters", "true", "t.created_at", latest=("source", "created_at"))
DELIVERIES = Kind(
    "webhook_deliveries",
    "webhook_deliveries",
    "t.ended_at IS NOT NULL",
    "t.ended_at",
    # What is to be replayed is needed for that.
    holds=(_letter("webhook", "t"),),
    latest=("webhook_id", "created_at"),
    failed="t.status = 'dead'",
)
INVOCATIONS = Kind(
    "invocations",
    "invocations",
    "t.ended_at IS NOT NULL",
    "t.ended_at",
    order=("ended_at", "id"),
    latest=("workflow_id", "started_at"),
    pin=("invocation", "t.id"),
    best=(
        "(EXISTS (SELECT FROM generations AS g WHERE g.tenant_id = t.tenant_id AND g.best_version_id = t.version_id)"
        " OR (t.generation_id IS NOT NULL AND t.fitness_score IS NOT NULL AND NOT EXISTS ("
        "SELECT FROM invocations AS b WHERE b.tenant_id = t.tenant_id AND b.generation_id = t.generation_id"
        " AND b.fitness_score > t.fitness_score)))"
    ),
    failed="t.status = 'failed'",
    parent="parent_invocation_id",
)
VERSIONS = Kind(
    "versions",
    "versions",
    "true",
    "t.created_at",
    holds=(
        "EXISTS (SELECT FROM invocations AS i WHERE i.tenant_id = t.tenant_id AND i.version_id = t.id)",
        # What was pruned stays as long as others descend from it.
        f"(t.pruned_at IS NOT NULL AND {DESCENDED})",
    ),
    latest=("workflow_id", "created_at"),
    pin=("version", "t.id"),
    best="EXISTS (SELECT FROM generations AS g WHERE g.tenant_id = t.tenant_id AND g.best_version_id = t.id)",
    prunes=("pruned_versions", DESCENDED),
)


def _of_run(table: str) -> str:
    return (
        f"EXISTS (SELECT FROM generations AS g JOIN {table} AS n ON n.tenant_id = g.tenant_id"
        " AND n.generation_id = g.id WHERE g.tenant_id = t.tenant_id AND g.run_id = t.id)"
    )


EVOLUTION_RUNS = Kind(
    "evolution_runs",
    "evolution_runs",
    "t.ended_at IS NOT NULL",
    "t.ended_at",
    order=("started_at", "id"),
    holds=(
        "EXISTS (SELECT FROM invocations AS i WHERE i.tenant_id = t.tenant_id AND i.run_id = t.id)",
        _of_run("invocations"),
        _of_run("versions"),
    ),
    latest=(None, "started_at"),
    pin=("evolution_run", "t.id"),
    failed="t.status = 'failed'",
    # FOR UPDATE: nothing is made in a generation before the commit.
    locks=Statement(
        "SELECT id FROM generations WHERE tenant_id = :tenant_id AND run_id = ANY (CAST(:keys AS text[]))"
        " ORDER BY id FOR UPDATE"
    ),
)
SUBMISSIONS = Kind(
    "submissions",
    "submissions",
    "t.status = 'settled'",
    "t.settled_at",
    order=("settled_at", "id"),
    holds=(
        _letter("submission", "t"),
        # What was joined into another goes with it, and both stay for what keeps one of them.
        "EXISTS (SELECT FROM submissions AS h WHERE h.tenant_id = t.tenant_id AND h.id = t.joined_into)",
        "EXISTS (SELECT FROM submissions AS c WHERE c.tenant_id = t.tenant_id AND c.joined_into = t.id AND ("
        f"c.status <> 'settled' OR c.settled_at >= {CUTOFF} OR {_letter('submission', 'c')}"
        " OR (COALESCE(CAST(:keep_latest AS bigint), 0) > 0 AND ((c.sequence, c.id) < (e.sort, e.tie)) IS NOT TRUE)"
        f" OR (CAST(:keep_pinned AS boolean) AND {pinned('submission', 'c.id')})"
        " OR (CAST(:keep_failed AS boolean) AND c.outcome = 'failed')))",
    ),
    latest=("session_number", "sequence"),
    pin=("submission", "t.id"),
    failed="t.outcome = 'failed'",
    joins="joined_into",
    # FOR UPDATE: nobody pins them before the commit.
    locks=Statement(
        "SELECT id FROM submissions WHERE tenant_id = :tenant_id AND joined_into = ANY (CAST(:keys AS text[]))"
        " ORDER BY id FOR UPDATE"
    ),
)
CONVERSATIONS = Kind(
    "conversations",
    "conversation_streams",
    "true",
    "t.updated_at",
    # Every append changes `updated_at`, so it is in no index.
    order=("created_at", "incarnation"),
    key="number",
    key_type="bigint",
    holds=(
        "((t.agent_name, t.instance_id) IN (SELECT u.agent, u.instance_id FROM submissions AS u"
        " WHERE u.tenant_id = :tenant_id AND u.status <> 'settled'))",
        # What is appended next may name it.
        "EXISTS (SELECT FROM attachments AS a WHERE a.tenant_id = t.tenant_id AND a.path_number = t.number"
        f" AND a.created_at >= {CUTOFF})",
    ),
    latest=("agent_name", "created_at"),
    pin=(
        "conversation",
        "(SELECT s.path FROM stream_paths AS s WHERE s.tenant_id = t.tenant_id AND s.number = t.number)",
    ),
    # FOR UPDATE: nothing is attached to them before the commit.
    locks=Statement(
        "SELECT number FROM stream_paths WHERE tenant_id = :tenant_id AND number = ANY (CAST(:keys AS bigint[]))"
        " ORDER BY number FOR UPDATE"
    ),
)
SESSIONS = Kind(
    "sessions",
    "sessions",
    "(t.status NOT IN ('active', 'suspended') OR t.expires_at <= now())",
    "(CASE WHEN t.status IN ('active', 'suspended') THEN t.expires_at ELSE t.updated_at END)",
    holds=(
        "EXISTS (SELECT FROM invocations AS i WHERE i.tenant_id = t.tenant_id AND i.session_id = t.id)",
        "EXISTS (SELECT FROM memory_items AS m WHERE m.tenant_id = t.tenant_id AND m.session_id = t.id)",
    ),
    latest=(None, "created_at"),
    pin=("session", "t.id"),
    failed="t.status = 'crashed'",
)
BACKUPS = Kind(
    "backups",
    "backups",
    "t.completed_at IS NOT NULL",
    "t.completed_at",
    holds=(
        # Somebody reads its file.
        "EXISTS (SELECT FROM jobs AS j WHERE j.state IN ('queued', 'running') AND j.tenant_id = t.tenant_id"
        " AND j.arguments ->> 'backup_id' = t.id)",
    ),
    latest=(None, "created_at"),
    pin=("backup", "t.id"),
)
JOBS = Kind(
    "jobs",
    "jobs",
    "t.ended_at IS NOT NULL",
    "t.ended_at",
    # The state of a backup is that of its job until it has a manifest.
    holds=("EXISTS (SELECT FROM backups AS b WHERE b.tenant_id = t.tenant_id AND b.job_id = t.id)",),
    latest=(None, "created_at"),
    failed="t.state = 'failed'",
)
# Events leave from the earliest on, whoever they are about: the order of readers has no gaps.
EVENTS = Kind("events", "events", "true", "t.sequenced_at")
# In the order in which a run goes through them: what is referred to comes after what refers to it.
KINDS = {
    kind.name: kind
    for kind in (
        *(DEAD_LETTERS, DELIVERIES, INVOCATIONS, VERSIONS, EVOLUTION_RUNS, SUBMISSIONS, CONVERSATIONS),
        *(SESSIONS, BACKUPS, JOBS, EVENTS),
    )
}
