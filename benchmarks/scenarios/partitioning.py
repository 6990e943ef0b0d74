"""What partitioning messages and node invocations by time would cost now; docs/decisions has what was made of it.

Three ways against the table as it is, each with its foreign key: by the row's own time in one partition and in twelve,
where the key must hold that time, an id is no longer unique by itself and every look-up probes every partition; and by
the time of the invocation, which the row repeats, so that one partition is known before it is opened.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.ground import PAYLOAD, TENANT, VERSION, Ground
from benchmarks.limit import Query
from benchmarks.rounds import Comparison, Load

MONTHS = 12
INVOCATIONS, MESSAGES, BATCH = 32, 100, 100
AS_IT_IS = "one table"
OWN_ONE, OWN, BY_INVOCATION = "own time, 1 partition", "own time, 12 partitions", "invocation's time, 12 partitions"
TABLES = {AS_IT_IS: "part_none", OWN_ONE: "part_own1", OWN: "part_own12", BY_INVOCATION: "part_inv12"}
FIRST_MONTH = "date_trunc('month', now()) - interval '11 months'"
OF_INVOCATION = "(SELECT i.created_at FROM invocations AS i WHERE i.tenant_id = $1 AND i.id = $2)"


def comparisons(ground: Ground) -> Iterator[Comparison]:
    """Writes of one and of a hundred, a look-up, the messages of a trace, the end of a node: each way against none."""
    _seed(ground)
    for what, query in (
        ("insert 1 message", lambda way: _insert(way, 1)),
        (f"insert {BATCH} messages", lambda way: _insert(way, BATCH)),
        ("look one message up", _look_up),
        (f"read the {MESSAGES} messages of a trace", _trace),
        ("end a node invocation", _end),
    ):
        limits: dict[str, Load] = {AS_IT_IS: ground.driver([query(AS_IT_IS)])}
        for way in (OWN_ONE, OWN, BY_INVOCATION):
            yield Comparison(f"{what}: {way}", ground.driver([query(way)]), limits)


def _insert(way: str, count: int) -> Query:
    """The write of the service in small: an id that is known is kept, whatever the table can say of that."""
    table, extra, value = TABLES[way], "", ""
    if way == BY_INVOCATION:
        extra, value = ", invocation_created_at", f", {OF_INVOCATION}"
    insert = (
        f"INSERT INTO {table} (tenant_id, invocation_id, id, seq, role, payload, digest{extra})"
        f" SELECT $1, $2, g.id, nextval('message_seq'), 'data', g.payload, ''{value}"
        " FROM unnest($3::text[], $4::json[]) AS g (id, payload)"
    )
    if way in (OWN_ONE, OWN):
        # No constraint tells a known id any more; this probe is what is left, and without a lock it lets twins pass.
        insert += (
            f" CROSS JOIN LATERAL (SELECT count(*) AS times FROM {table} AS m WHERE m.tenant_id = $1"
            " AND m.invocation_id = $2 AND m.id = g.id) AS known WHERE known.times = 0"
        )
    else:
        key = "tenant_id, invocation_id, id" + extra
        insert += f" ON CONFLICT ({key}) DO UPDATE SET digest = excluded.digest"
    ids = [f"@@-{place:02d}" for place in range(count)]
    return Query(f"{insert} RETURNING id, seq", (TENANT, "bench-~~", ids, [PAYLOAD.encode()] * count))


def _pruned(way: str) -> str:
    return f" AND m.invocation_created_at = {OF_INVOCATION}" if way == BY_INVOCATION else ""


def _look_up(way: str) -> Query:
    return Query(
        f"SELECT m.id, m.payload FROM {TABLES[way]} AS m WHERE m.tenant_id = $1 AND m.invocation_id = $2 AND m.id = $3"
        + _pruned(way),
        (TENANT, "part-06-~~", "message-050"),
    )


def _trace(way: str) -> Query:
    return Query(
        f"SELECT m.id, m.payload FROM {TABLES[way]} AS m WHERE m.tenant_id = $1 AND m.invocation_id = $2{_pruned(way)}"
        " ORDER BY m.seq, m.id LIMIT 2001",
        (TENANT, "part-06-~~"),
    )


def _end(way: str) -> Query:
    return Query(
        f"UPDATE {TABLES[way]}_nodes AS m SET status = 'completed', ended_at = clock_timestamp(),"
        " revision = m.revision + 1 WHERE m.tenant_id = $1 AND m.invocation_id = $2 AND m.id = $3" + _pruned(way),
        (TENANT, "part-06-~~", "node-5"),
    )


def _seed(ground: Ground) -> None:
    ground.sql(
        "INSERT INTO invocations (tenant_id, id, version_id, workflow_id, status, started_at, created_at, digest)"
        f" SELECT $1, 'part-' || to_char(m, 'FM00') || '-' || to_char(n, 'FM00'), $2, 'bench-workflow', 'running',"
        f" {FIRST_MONTH} + (m - 1) * interval '1 month' + interval '9 days', {FIRST_MONTH}"
        " + (m - 1) * interval '1 month' + interval '9 days', ''"
        " FROM generate_series(1, $3::int) AS m, generate_series(0, $4::int - 1) AS n",
        TENANT, VERSION, MONTHS, INVOCATIONS,
    )  # fmt: skip
    ground.sql("CREATE UNIQUE INDEX uq_invocations_created_at ON invocations (tenant_id, id, created_at)")
    for way, table in TABLES.items():
        for name, like in ((table, "messages"), (f"{table}_nodes", "node_invocations")):
            _create(ground, way, name, like)
        _fill(ground, way, table)
    ground.sql("ANALYZE")


def _create(ground: Ground, way: str, name: str, like: str) -> None:
    key, reference, target, by = "tenant_id, invocation_id, id", "tenant_id, invocation_id", "tenant_id, id", ""
    columns = f"LIKE {like} INCLUDING DEFAULTS"
    if way in (OWN_ONE, OWN):
        key, by = f"{key}, created_at", "created_at"
    elif way == BY_INVOCATION:
        by = "invocation_created_at"
        columns += f", {by} timestamptz NOT NULL"
        key, reference, target = f"{key}, {by}", f"{reference}, {by}", f"{target}, created_at"
    ground.sql(f"CREATE TABLE {name} ({columns})" + (f" PARTITION BY RANGE ({by})" if by else ""))
    if by:
        count = 1 if way == OWN_ONE else MONTHS
        for place in range(count):
            start = f"{FIRST_MONTH} + interval '{place} months'"
            bounds = ground.sql(f"SELECT ({start})::text, ({start} + interval '{MONTHS // count} months')::text")[0]
            ground.sql(
                f"CREATE TABLE {name}_{place} PARTITION OF {name} FOR VALUES FROM ('{bounds[0]}') TO ('{bounds[1]}')"
            )
    ground.sql(f"ALTER TABLE {name} ADD PRIMARY KEY ({key})")
    ground.sql(f"ALTER TABLE {name} ADD FOREIGN KEY ({reference}) REFERENCES invocations ({target})")
    order = "seq" if like == "messages" else "started_at"
    ground.sql(f"CREATE INDEX ON {name} (tenant_id, invocation_id, {order}, id)")


def _fill(ground: Ground, way: str, table: str) -> None:
    extra, value = (", invocation_created_at", ", i.created_at") if way == BY_INVOCATION else ("", "")
    ground.sql(
        f"INSERT INTO {table} (tenant_id, invocation_id, id, seq, role, payload, digest, created_at{extra})"
        f" SELECT i.tenant_id, i.id, 'message-' || to_char(n, 'FM000'), n, 'data', $2, '', i.created_at{value}"
        " FROM invocations AS i, generate_series(1, $3::int) AS n WHERE i.tenant_id = $1 AND i.id LIKE 'part-%'",
        TENANT, PAYLOAD, MESSAGES,
    )  # fmt: skip
    ground.sql(
        f"INSERT INTO {table}_nodes (tenant_id, invocation_id, id, node_id, node_version_id, status, digest,"
        f" created_at{extra}) SELECT i.tenant_id, i.id, 'node-' || n, 'node', 'v', 'running', '', i.created_at{value}"
        " FROM invocations AS i, generate_series(1, 10) AS n WHERE i.tenant_id = $1 AND i.id LIKE 'part-%'",
        TENANT,
    )
