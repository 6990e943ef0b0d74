"""What belongs to a run or a generation: invocations, each once however it is linked, and the versions it saw.

An invocation belongs to the run it names, or else to that of its generation, or else to that of its version's
generation. The parts exclude each other, so nothing is counted twice and nothing has to be sorted out.
"""

from __future__ import annotations

from app.db.mean import difference, mean

_SHOWN = "i.id, i.version_id, i.status, i.started_at, i.ended_at, i.usd_cost, i.fitness_score, i.accuracy"


def invocations_of_run(tenant_id: str, run_id: str) -> str:
    """The SQL of a run's invocations, with `generation_id` and `number` of the generation each belongs to, or null."""
    return f"""(
  SELECT {_SHOWN}, g.id AS generation_id, g.number
  FROM invocations AS i
  LEFT JOIN versions AS v ON v.tenant_id = i.tenant_id AND v.id = i.version_id AND i.generation_id IS NULL
  LEFT JOIN generations AS g ON g.tenant_id = i.tenant_id AND g.id = COALESCE(i.generation_id, v.generation_id)
    AND g.run_id = i.run_id
  WHERE i.tenant_id = {tenant_id} AND i.run_id = {run_id}
  UNION ALL
  SELECT {_SHOWN}, g.id, g.number
  FROM generations AS g JOIN invocations AS i ON i.tenant_id = g.tenant_id AND i.generation_id = g.id
  WHERE g.tenant_id = {tenant_id} AND g.run_id = {run_id} AND i.run_id IS NULL
  UNION ALL
  SELECT {_SHOWN}, g.id, g.number
  FROM generations AS g JOIN versions AS v ON v.tenant_id = g.tenant_id AND v.generation_id = g.id
  JOIN invocations AS i ON i.tenant_id = v.tenant_id AND i.version_id = v.id
  WHERE g.tenant_id = {tenant_id} AND g.run_id = {run_id} AND i.run_id IS NULL AND i.generation_id IS NULL
)"""


def versions_of_run(tenant_id: str, run_id: str, invocations: str | None = None) -> str:
    """The SQL of the versions that a run saw: made in a generation of it, a member of one, or run in it.

    A row for each way and generation, so a version may come several times; only what ran adds invocations and cost.
    `invocations` names the rows of `invocations_of_run` where a statement has them already.
    """
    return f"""(
  SELECT v.id AS version_id, g.number, 0 AS invocations, 0 AS successes, CAST(NULL AS float8) AS fitness,
    CAST(NULL AS numeric) AS cost
  FROM generations AS g JOIN versions AS v ON v.tenant_id = g.tenant_id AND v.generation_id = g.id
  WHERE g.tenant_id = {tenant_id} AND g.run_id = {run_id}
  UNION ALL
  SELECT m.version_id, g.number, 0, 0, m.fitness, NULL
  FROM generations AS g JOIN generation_members AS m ON m.tenant_id = g.tenant_id AND m.generation_id = g.id
  WHERE g.tenant_id = {tenant_id} AND g.run_id = {run_id}
  UNION ALL
  SELECT l.version_id, l.number, count(*), count(*) FILTER (WHERE l.status = 'completed'), max(l.fitness_score),
    sum(l.usd_cost)
  FROM {invocations or invocations_of_run(tenant_id, run_id)} AS l GROUP BY l.version_id, l.number
)"""


def invocations_of_generation(generation: str) -> str:
    """The SQL of the invocations of the generation under this alias."""
    return f"""(
  SELECT {_SHOWN} FROM invocations AS i
  WHERE i.tenant_id = {generation}.tenant_id AND i.generation_id = {generation}.id
  UNION ALL
  SELECT {_SHOWN} FROM versions AS v JOIN invocations AS i ON i.tenant_id = v.tenant_id AND i.version_id = v.id
  WHERE v.tenant_id = {generation}.tenant_id AND v.generation_id = {generation}.id AND i.generation_id IS NULL
    AND (i.run_id IS NULL OR i.run_id = {generation}.run_id)
)"""


DURATION = "CAST(EXTRACT(epoch FROM {t}.ended_at - {t}.started_at) AS float8)"
# One row of what is derived from a run `{t}`; a first pass by generation gives counts and mean accuracies at once.
RUN_TOTALS = f"""LATERAL (
  SELECT {DURATION} AS duration,
    (SELECT count(*) FROM generations AS g WHERE g.tenant_id = {{t}}.tenant_id AND g.run_id = {{t}}.id)
      AS generation_count,
    a.invocation_count, a.successful_invocation_count, a.total_cost, {difference("a.last", "a.first")} AS accuracy_delta
  FROM (
    SELECT CAST(COALESCE(sum(s.invocations), 0) AS bigint) AS invocation_count,
      CAST(COALESCE(sum(s.successes), 0) AS bigint) AS successful_invocation_count,
      trim_scale(COALESCE(sum(s.cost), 0)) AS total_cost,
      (array_agg(s.accuracy ORDER BY s.number DESC) FILTER (WHERE s.accuracy IS NOT NULL AND s.number IS NOT NULL))[1]
        AS last,
      (array_agg(s.accuracy ORDER BY s.number) FILTER (WHERE s.accuracy IS NOT NULL AND s.number IS NOT NULL))[1]
        AS first
    FROM (
      SELECT l.number, count(*) AS invocations, count(*) FILTER (WHERE l.status = 'completed') AS successes,
        sum(l.usd_cost) AS cost, {mean("l.accuracy")} AS accuracy
      FROM {invocations_of_run("{t}.tenant_id", "{t}.id")} AS l GROUP BY l.number
    ) AS s
  ) AS a
) AS d"""
# The same parts alone, each a row of what a list is sorted by: no more is derived of a run than its place asks for.
GENERATIONS_OF_RUN = """LATERAL (
  SELECT count(*) AS generation_count FROM generations AS g WHERE g.tenant_id = {t}.tenant_id AND g.run_id = {t}.id
) AS k"""
SUMS_OF_RUN = f"""LATERAL (
  SELECT count(*) AS invocation_count, count(*) FILTER (WHERE l.status = 'completed') AS successful_invocation_count,
    COALESCE(sum(l.usd_cost), 0) AS total_cost
  FROM {invocations_of_run("{t}.tenant_id", "{t}.id")} AS l
) AS k"""
DELTA_OF_RUN = f"""LATERAL (
  SELECT {difference("a.last", "a.first")} AS accuracy_delta
  FROM (
    SELECT (array_agg(s.accuracy ORDER BY s.number DESC))[1] AS last, (array_agg(s.accuracy ORDER BY s.number))[1]
      AS first
    FROM (
      SELECT l.number, {mean("l.accuracy")} AS accuracy FROM {invocations_of_run("{t}.tenant_id", "{t}.id")} AS l
      WHERE l.number IS NOT NULL AND l.accuracy IS NOT NULL GROUP BY l.number
    ) AS s
  ) AS a
) AS k"""
DERIVED = (
    "duration",
    "generation_count",
    "invocation_count",
    "successful_invocation_count",
    "total_cost",
    "accuracy_delta",
)

# One row of what is derived from a generation `{t}`.
GENERATION_TOTALS = f"""LATERAL (
  SELECT m.members AS member_count, s.invocations AS invocation_count, s.successes AS successful_invocation_count,
    CASE WHEN s.scores > 0 THEN json_build_object('min', s.lowest, 'max', s.highest, 'count', s.scores)
         ELSE json_build_object('min', m.lowest, 'max', m.highest, 'count', m.scores) END AS fitness
  FROM (
    SELECT count(*) AS members, count(m.fitness) AS scores, min(m.fitness) AS lowest, max(m.fitness) AS highest
    FROM generation_members AS m WHERE m.tenant_id = {{t}}.tenant_id AND m.generation_id = {{t}}.id
  ) AS m CROSS JOIN (
    SELECT count(*) AS invocations, count(*) FILTER (WHERE l.status = 'completed') AS successes,
      count(l.fitness_score) AS scores, min(l.fitness_score) AS lowest, max(l.fitness_score) AS highest
    FROM {invocations_of_generation("{t}")} AS l
  ) AS s
) AS d"""
