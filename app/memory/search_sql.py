"""The one statement of a search: its text depends on the space, on what narrows it, and on how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from app.db.shape import instant_sql
from app.db.sql import Statement
from app.memory.partitions import METRICS, index_name, index_type, indexed, table_of

# Rank k of a list counts as 1 / (60 + k): Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion", 2009.
FUSION = 60
# Fused are lists of at least so many; beyond, a rank adds hardly anything.
FUSED_MIN = 64
# Contents are shown until they are so many bytes together.
SHOWN_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True)
class Form:
    """What the text of a search depends on.

    `most` is a power of two that bounds each list, `narrowed` names what is filtered on. A limit that is a parameter
    counts as a tenth of all rows, and PostgreSQL would rather read and sort those than ask the index.
    """

    number: int
    dimensions: int
    metric: str
    by_vector: bool
    by_words: bool
    most: int
    breadth: int
    exact_rows: int
    text_rows: int
    narrowed: frozenset[str]
    explain: bool


NARROWING = {
    "kind": "kind = (SELECT kind FROM asked)",
    "filter": "metadata @> (SELECT filter FROM asked)",
    "session_id": "session_id = (SELECT session_id FROM asked)",
    "invocation_id": "invocation_id = (SELECT invocation_id FROM asked)",
}
_LIVE = "(expires_at IS NULL OR expires_at > statement_timestamp())"

# Whatever reads `asked` is carried out after `settings`, so the scans find them; they last as long as the transaction,
# which is this statement. Where the space is another by now, nothing is asked and nothing is told. The vector stands in
# a sub-select, so that one kept plan is right for all of them.
_ASKED = """\
settings AS MATERIALIZED (
  SELECT set_config('hnsw.ef_search', :breadth, true), set_config('hnsw.iterative_scan', 'relaxed_order', true),
    set_config('hnsw.max_scan_tuples', :scan_rows, true), set_config('hnsw.scan_mem_multiplier', '16', true)
), asked AS MATERIALIZED (
  SELECT CAST(:tenant_id AS text) AS tenant_id, CAST(:kind AS text) AS kind, CAST(:filter AS jsonb) AS filter,
    CAST(:session_id AS text) AS session_id, CAST(:invocation_id AS text) AS invocation_id,
    CAST(:embedding AS vector) AS vector
  FROM settings
  WHERE EXISTS (
    SELECT FROM memory_spaces AS s
    WHERE s.tenant_id = :tenant_id AND s.name = :space AND s.number = {number} AND (s.active OR :named)
  )
)"""

# Nothing but an order by what the index holds is read from it; `compared` orders by the vector itself and never is.
# What has no embedding is not in the index, but comes last where PostgreSQL would rather sort a small table.
_UNFILTERED = """\
scanned AS MATERIALIZED (
  SELECT kind, id, {distance} AS distance FROM (
    SELECT kind, id, embedding FROM {table}
    WHERE {live} AND (SELECT valid FROM index) ORDER BY {indexed} LIMIT {candidates}
  ) AS near WHERE embedding IS NOT NULL
)"""

# First the nearest of all are looked at, whether they match: for a wide filter that is all. Else it is counted whether
# few match, and only where many do is the index read on and on. Within `CASE` a condition is of no other index and
# counts as true of every second row: as `@>` counts, one of a hundred, PostgreSQL would rather read and sort them all.
_FILTERED = """\
nearest AS MATERIALIZED (
  SELECT kind, id, {distance} AS distance FROM (
    SELECT * FROM {table} WHERE {live} AND (SELECT valid FROM index) ORDER BY {indexed} LIMIT {first}
  ) AS near WHERE embedding IS NOT NULL AND {beside}
), enough AS MATERIALIZED (
  SELECT count(*) >= CAST(:wanted AS bigint) AS enough FROM nearest
), matching AS MATERIALIZED (
  SELECT count(*) > {exact_rows} AS many FROM (
    SELECT FROM {table} WHERE {matches} AND embedding IS NOT NULL
      AND (SELECT valid FROM index) AND NOT (SELECT enough FROM enough)
    LIMIT {exact_rows} + 1
  ) AS counted
), scanned AS MATERIALIZED (
  SELECT * FROM nearest WHERE (SELECT enough FROM enough)
  UNION ALL
  SELECT kind, id, {distance} FROM (
    SELECT kind, id, embedding FROM {table}
    WHERE {live} AND {beside} AND (SELECT valid FROM index) AND NOT (SELECT enough FROM enough)
      AND (SELECT many FROM matching)
    ORDER BY {indexed} LIMIT {candidates}
  ) AS near WHERE embedding IS NOT NULL
)"""

_BY_VECTOR = """\
index AS MATERIALIZED (
  SELECT EXISTS (
    SELECT FROM pg_index WHERE indexrelid = to_regclass('{index}') AND indisvalid
  ) AS valid
), {scan}, short AS MATERIALIZED (
  SELECT count(*) < CAST(:wanted AS bigint) AS short FROM scanned
), compared AS MATERIALIZED (
  SELECT kind, id, {distance} AS distance FROM {table}
  WHERE {matches} AND embedding IS NOT NULL AND (SELECT short FROM short)
  ORDER BY distance, kind, id LIMIT {most}
), by_vector AS MATERIALIZED (
  SELECT kind, id, {score} AS score, row_number() OVER (ORDER BY distance, kind, id) AS rank
  FROM (SELECT * FROM scanned WHERE NOT (SELECT short FROM short) UNION ALL SELECT * FROM compared) AS near
  ORDER BY rank LIMIT {most}
)"""

_WORDS = """\
words AS MATERIALIZED (
  SELECT websearch_to_tsquery(CAST(CAST(:language AS text) AS regconfig), CAST(:query AS text)) AS every_word
)"""
# At most so many matches are ranked. What has every word is found first, and by itself, so that a word that is
# everywhere does not crowd it out.
_WHOLE = """\
whole AS MATERIALIZED (
  SELECT kind, id, ts_rank_cd(lexemes, (SELECT every_word FROM words)) AS score FROM (
    SELECT kind, id, lexemes FROM {table} WHERE {matches} AND lexemes @@ (SELECT every_word FROM words)
    LIMIT {text_rows}
  ) AS matching
)"""
# A question in full sentences shares not every word with what answers it, so beside the vectors some will do. Where
# words are excluded by `-` there is no such reading: nearly everything would match.
_PARTIAL = """\
loose AS MATERIALIZED (
  SELECT CASE WHEN strpos(CAST(every_word AS text), '!') = 0
    THEN CAST(replace(CAST(every_word AS text), ' & ', ' | ') AS tsquery) END AS any_word FROM words
), partial AS MATERIALIZED (
  SELECT kind, id, ts_rank_cd(lexemes, (SELECT any_word FROM loose)) AS score FROM (
    SELECT kind, id, lexemes FROM {table}
    WHERE {matches} AND lexemes @@ (SELECT any_word FROM loose) AND NOT lexemes @@ (SELECT every_word FROM words)
      AND (SELECT count(*) FROM whole) < {most}
    LIMIT {text_rows}
  ) AS matching
)"""
_BY_WORDS = """\
by_words AS MATERIALIZED (
  SELECT *, row_number() OVER (ORDER BY words, score DESC, kind, id) AS rank FROM ({found}) AS found
  ORDER BY rank LIMIT {most}
)"""
_ALL_WORDS = "SELECT kind, id, score, 'all' AS words FROM whole"
_ANY_WORDS = f"{_ALL_WORDS} UNION ALL SELECT kind, id, score, 'any' FROM partial"

_FUSED = f"""\
fused AS MATERIALIZED (
  SELECT kind, id, sum(CAST(1 AS double precision) / ({FUSION} + rank)) AS score,
    max(vector_rank) AS vector_rank, max(vector_score) AS vector_score,
    max(text_rank) AS text_rank, max(text_score) AS text_score, max(words) AS words
  FROM (
    SELECT kind, id, rank, rank AS vector_rank, score AS vector_score, CAST(NULL AS bigint) AS text_rank,
      CAST(NULL AS real) AS text_score, CAST(NULL AS text) AS words FROM by_vector
    UNION ALL
    SELECT kind, id, rank, NULL, NULL, rank, score, words FROM by_words
  ) AS both_ways GROUP BY kind, id
)"""
_ONE_WAY = {
    "by_vector": "SELECT kind, id, score, rank AS vector_rank, score AS vector_score FROM by_vector",
    "by_words": "SELECT kind, id, score, rank AS text_rank, score AS text_score, words FROM by_words",
}

_EXPLAINED_VECTOR = """CASE WHEN h.vector_rank IS NOT NULL THEN json_build_object('rank', h.vector_rank,
      'score', h.vector_score, 'by', CASE WHEN (SELECT short FROM short) THEN 'exact' ELSE 'index' END) END"""
_EXPLAINED_TEXT = """CASE WHEN h.text_rank IS NOT NULL THEN json_build_object('rank', h.text_rank,
      'score', h.text_score, 'words', h.words) END"""

_TOLD = """\
hits AS MATERIALIZED (
  SELECT *, row_number() OVER (ORDER BY score DESC, kind, id) AS place FROM {found} AS f
  ORDER BY place LIMIT CAST(:top_k AS bigint)
), weighed AS MATERIALIZED (
  SELECT h.*, i.metadata, i.session_id, i.invocation_id, {created_at} AS created_at, CASE WHEN
    sum(octet_length(i.content)) OVER (ORDER BY h.place) - octet_length(i.content) < {shown} THEN i.content END
    AS content
  FROM hits AS h JOIN memory_items AS i
    ON i.tenant_id = (SELECT tenant_id FROM asked) AND i.kind = h.kind AND i.id = h.id
)
SELECT (SELECT row_to_json(told) FROM (SELECT CAST(:space AS text) AS space, CAST(:mode AS text) AS mode,
  {exact} AS exact, CAST('[' || COALESCE((
    SELECT string_agg(CAST((SELECT row_to_json(shown) FROM (SELECT h.id, h.kind, h.score, h.content, h.metadata,
      h.session_id, h.invocation_id, h.created_at{explain}) AS shown) AS text), ',' ORDER BY h.place) FROM weighed AS h
  ), '') || ']' AS json) AS items FROM asked) AS told) AS body"""


@lru_cache(maxsize=4096)
def statement(form: Form) -> Statement:
    """The statement of a search in this form; it gives one row with `body`."""
    parts, ways, exact = [_ASKED.format(number=form.number)], [], []
    if form.by_vector:
        parts.append(_by_vector(form))
        ways.append("by_vector")
        exact.append("(SELECT short FROM short)")
    if form.by_words:
        parts += _by_words(form)
        ways.append("by_words")
        ranked = ("whole", "partial") if form.by_vector else ("whole",)
        exact += [f"(SELECT count(*) FROM {found}) < {form.text_rows}" for found in ranked]
    if len(ways) == 2:
        parts.append(_FUSED)
    told = _TOLD.format(
        found="fused" if len(ways) == 2 else f"({_ONE_WAY[ways[0]]})",
        created_at=instant_sql("i.created_at"),
        shown=SHOWN_BYTES_MAX,
        exact=" AND ".join(exact),
        explain=_explained(form) if form.explain else "",
    )
    return Statement("WITH " + ",\n".join([*parts, told]), "search")


def _matches(form: Form) -> str:
    return " AND ".join(
        [
            "tenant_id = (SELECT tenant_id FROM asked)",
            f"space_number = {form.number}",
            _LIVE,
            *(NARROWING[name] for name in sorted(form.narrowed)),
        ]
    )


def _by_vector(form: Form) -> str:
    metric = METRICS[form.metric]
    # What is kept at half precision is found by it, but ordered by the vector itself: so more is read than is asked.
    candidates = form.most if index_type(form.dimensions) == "vector" else 2 * form.most + 32
    places = {
        "table": table_of(form.number),
        "index": index_name(form.number),
        "live": _LIVE,
        "matches": _matches(form),
        "beside": " AND ".join(
            f"CASE WHEN {NARROWING[name]} THEN true ELSE false END" for name in sorted(form.narrowed)
        ),
        "distance": f"embedding {metric.operator} (SELECT vector FROM asked)",
        "indexed": f"{indexed(form.dimensions, form.metric, 'embedding')} {metric.operator}"
        f" (SELECT {indexed(form.dimensions, form.metric, 'vector')} FROM asked)",
        "score": metric.score.format(d="distance"),
        "most": form.most,
        "candidates": candidates,
        "first": max(form.breadth, 2 * candidates),
        "exact_rows": form.exact_rows,
    }
    scan = (_FILTERED if form.narrowed else _UNFILTERED).format(**places)
    return _BY_VECTOR.format(scan=scan, **places)


def _by_words(form: Form) -> list[str]:
    parts = [_WORDS, _WHOLE, _PARTIAL, _BY_WORDS] if form.by_vector else [_WORDS, _WHOLE, _BY_WORDS]
    places = {
        "table": table_of(form.number),
        "matches": _matches(form),
        "text_rows": form.text_rows,
        "most": form.most,
        "found": _ANY_WORDS if form.by_vector else _ALL_WORDS,
    }
    return [part.format(**places) for part in parts]


def _explained(form: Form) -> str:
    members = []
    if form.by_vector:
        members.append(f"{_EXPLAINED_VECTOR} AS vector")
    if form.by_words:
        members.append(f"{_EXPLAINED_TEXT} AS text")
    return f", (SELECT row_to_json(way) FROM (SELECT {', '.join(members)}) AS way) AS explain"
