"""The SQL that writes items: its text names the partitions of the spaces that are written to."""

from __future__ import annotations

from functools import lru_cache

from app.db.shape import Shape, computed, instant, items
from app.db.sql import Statement
from app.memory.errors import MemoryItemConflict
from app.memory.partitions import table_of

COLUMNS = (
    "id",
    "kind",
    "content",
    "metadata",
    "session_id",
    "invocation_id",
    instant("expires_at"),
    instant("created_at"),
    instant("updated_at"),
)
LISTED = Shape(*COLUMNS)
ITEM = Shape(*COLUMNS, "embedded")
ANSWERED = Shape(computed("status", "CASE WHEN {t}.fresh THEN 201 ELSE 200 END"), *ITEM.columns)
# To the commit: whoever changes the tenant's spaces waits for it. False where they are not those that the text names.
HELD = "(SELECT cairn_hold_spaces(:tenant_id, CAST(:known AS text[])))"
CONFLICT = "An item with this id was created with other fields."

_VECTOR_COLUMNS = (
    "(tenant_id, space_number, kind, id, embedding, lexemes, metadata, session_id, invocation_id, expires_at)"
)
_COPIED = "metadata, {t}.session_id, {t}.invocation_id, {t}.expires_at"


def live(table: str) -> str:
    """The condition under which an item is there at all: nobody sees what has expired."""
    return f"({table}.expires_at IS NULL OR {table}.expires_at > clock_timestamp())"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _conflict(alias: str) -> str:
    kind = MemoryItemConflict
    members = {"type": f"/problems/{kind.code}", "title": kind.title, "detail": CONFLICT, "code": kind.code}
    shown = "".join(f", {_quoted(value)} AS {name}" for name, value in members.items())
    return f"(SELECT row_to_json(shown) FROM (SELECT {kind.status} AS status{shown}, {alias}.id AS id) AS shown)"


@lru_cache(maxsize=1024)
def create_sql(targets: tuple[int, ...], active: int, *, many: bool) -> Statement:
    """Stores n items, or one: those of which no problem is known, in the spaces with these numbers.

    One gives no answer where its id is another's; of many, each is answered. Neither gives one, and nothing has
    happened, where the spaces are others by now, or where what has expired is still there under one of the ids.
    """
    arrays = "".join(f", CAST(:embeddings_{number} AS vector[])" for number in targets)
    names = "".join(f", e_{number}" for number in targets)
    rows = "".join(
        f"""), in_{number} AS (
  INSERT INTO {table_of(number)} {_VECTOR_COLUMNS}
  SELECT :tenant_id, {number}, w.kind, w.id, g.e_{number}, cairn_lexemes(:language_{number}, w.content),
         w.{_COPIED.format(t="w")}
  FROM written AS w JOIN given AS g USING (id) WHERE w.fresh
"""
        for number in targets
    )
    told = (
        "SELECT CASE WHEN t.fresh THEN 201 ELSE 200 END AS status, t.revision AS etag,"
        f" {ITEM.json('t')} AS body FROM told AS t"
    )
    if many:
        each = f"CASE WHEN t.id IS NOT NULL THEN {ANSWERED.json('t')} ELSE COALESCE(g.problem, {_conflict('g')}) END"
        told = (
            "SELECT CASE WHEN bool_or(t.id IS NULL) THEN 207 WHEN bool_or(t.fresh) THEN 201 ELSE 200 END AS status,"
            f" CAST(NULL AS bigint) AS etag, {items(each, 'g.place')} AS body"
            " FROM given AS g LEFT JOIN told AS t USING (id) HAVING count(*) > 0"
        )
    return Statement(
        f"""WITH given AS MATERIALIZED (
  SELECT g.* FROM unnest(
    CAST(:ids AS text[]), CAST(:contents AS text[]), CAST(:metadatas AS jsonb[]), CAST(:session_ids AS text[]),
    CAST(:invocation_ids AS text[]), CAST(:expiries AS timestamptz[]), CAST(:digests AS bytea[]),
    CAST(:problems AS json[]){arrays}
  ) WITH ORDINALITY AS g (id, content, metadata, session_id, invocation_id, expires_at, digest, problem{names}, place)
  WHERE {HELD} AND NOT EXISTS (
    SELECT FROM memory_items AS m WHERE m.tenant_id = :tenant_id AND m.kind = :kind
      AND m.id = ANY (CAST(:ids AS text[])) AND m.expires_at <= clock_timestamp())
), written AS (
  -- In the order of their ids, so that two calls with the same ids cannot wait for each other.
  -- A first revision is greater than that of any item of this id before: none is taken for another.
  INSERT INTO memory_items AS m
    (tenant_id, kind, id, content, metadata, session_id, invocation_id, expires_at, digest, revision)
  SELECT :tenant_id, :kind, g.id, g.content, COALESCE(g.metadata, CAST('{{}}' AS jsonb)), g.session_id,
         g.invocation_id, g.expires_at, g.digest, CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)
  FROM given AS g WHERE g.problem IS NULL ORDER BY g.id COLLATE "C"
  ON CONFLICT (tenant_id, kind, id) DO UPDATE SET digest = excluded.digest WHERE m.digest = excluded.digest
  RETURNING m.*, old.id IS NULL AS fresh
{rows}), told AS (
  SELECT w.*, CASE WHEN w.fresh THEN g.e_{active} IS NOT NULL ELSE COALESCE((
      SELECT v.embedding IS NOT NULL FROM {table_of(active)} AS v WHERE v.tenant_id = :tenant_id
        AND v.space_number = {active} AND v.kind = w.kind AND v.id = w.id), g.e_{active} IS NOT NULL) END AS embedded
  FROM written AS w JOIN given AS g USING (id)
), answer AS (
  {told}
)""",
        "remember",
    )


@lru_cache(maxsize=1024)
def change_sql(targets: tuple[int, ...], others: tuple[int, ...], active: int) -> Statement:
    """Changes the fields given of an item that is as it was read, and its rows in every space, which follow it.

    In the targets it gets a row where it has none. Content that is `reworded` takes the embedding with it wherever
    no other is given.
    """
    rows = "".join(
        f"""), in_{number} AS (
  INSERT INTO {table_of(number)} AS v {_VECTOR_COLUMNS}
  SELECT c.tenant_id, {number}, c.kind, c.id, CAST(:embedding_{number} AS vector),
         cairn_lexemes(:language_{number}, c.content), c.{_COPIED.format(t="c")}
  FROM changed AS c
  ON CONFLICT (tenant_id, space_number, kind, id) DO UPDATE SET
    embedding = CASE WHEN :reworded OR excluded.embedding IS NOT NULL THEN excluded.embedding ELSE v.embedding END,
    lexemes = excluded.lexemes, metadata = excluded.metadata, session_id = excluded.session_id,
    invocation_id = excluded.invocation_id, expires_at = excluded.expires_at
  RETURNING v.embedding IS NOT NULL AS embedded
"""
        for number in targets
    ) + "".join(
        f"""), in_{number} AS (
  UPDATE {table_of(number)} AS v SET embedding = CASE WHEN :reworded THEN NULL ELSE v.embedding END,
    lexemes = cairn_lexemes(:language_{number}, c.content), metadata = c.metadata, session_id = c.session_id,
    invocation_id = c.invocation_id, expires_at = c.expires_at
  FROM changed AS c
  WHERE v.tenant_id = c.tenant_id AND v.space_number = {number} AND v.kind = c.kind AND v.id = c.id
"""
        for number in others
    )
    return Statement(
        f"""WITH changed AS (
  UPDATE memory_items AS m SET
    content = CASE WHEN :set_content THEN :content ELSE m.content END,
    metadata = CASE WHEN :set_metadata THEN COALESCE(:metadata, CAST('{{}}' AS jsonb)) ELSE m.metadata END,
    session_id = CASE WHEN :set_session_id THEN :session_id ELSE m.session_id END,
    invocation_id = CASE WHEN :set_invocation_id THEN :invocation_id ELSE m.invocation_id END,
    expires_at = CASE WHEN :set_expires_at THEN :expires_at ELSE m.expires_at END,
    revision = m.revision + 1, updated_at = clock_timestamp()
  WHERE m.tenant_id = :tenant_id AND m.kind = :kind AND m.id = :id AND m.revision = :revision AND {HELD}
  RETURNING m.*
{rows}), told AS (
  SELECT c.*, v.embedded FROM changed AS c CROSS JOIN in_{active} AS v
), answer AS (
  SELECT 200 AS status, t.revision AS etag, {ITEM.json("t")} AS body FROM told AS t
)""",
        "reword",
    )


@lru_cache(maxsize=1024)
def get_sql(active: int, *, embedding: bool) -> Statement:
    """Reads an item with what it has in the space with this number, and the number of the space that is active."""
    shown = "CASE WHEN v.embedding IS NOT NULL THEN CAST(CAST(v.embedding AS text) AS json) END AS embedding"
    shape = Shape(*ITEM.columns, *(["embedding"] if embedding else []))
    return Statement(
        f"""SELECT t.revision, t.digest, t.content, {shape.json("t")} AS body,
  (SELECT s.number FROM memory_spaces AS s WHERE s.tenant_id = :tenant_id AND s.active) AS active
FROM (
  SELECT m.*, v.embedding IS NOT NULL AS embedded{", " + shown if embedding else ""} FROM memory_items AS m
  LEFT JOIN {table_of(active)} AS v
    ON v.tenant_id = m.tenant_id AND v.space_number = {active} AND v.kind = m.kind AND v.id = m.id
  WHERE m.tenant_id = :tenant_id AND m.kind = :kind AND m.id = :id AND {live("m")}
) AS t""",
        "recall",
    )
