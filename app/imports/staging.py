"""The SQL about staged rows that is alike for every table: what comes twice, leads nowhere, or is there as another."""

from __future__ import annotations

from collections.abc import Iterator

from app.imports.mapping import TableMapping
from app.tables import METADATA

# Stored after the rows that it points to.
_LATER = {"generations": {"best_version_id"}}
# What two equal versions may differ in as text: their hash is compared.
_NOT_COMPARED = {"versions": {"dsl"}}


def stage_of(target: str) -> str:
    """The temporary table that holds the rows to come of a table."""
    return f"lucky_{target}"


def staging(mapping: TableMapping) -> Iterator[str]:
    """The statements that make the stage, which ends with the transaction."""
    extra = "".join(f", ADD COLUMN {name} {kind}" for name, kind in mapping.extra.items())
    stage = stage_of(mapping.target)
    yield f"CREATE TEMPORARY TABLE {stage} ON COMMIT DROP AS SELECT * FROM {mapping.target} WITH NO DATA"
    yield f"ALTER TABLE {stage} ADD COLUMN line bigint{extra}"


def repeated(mapping: TableMapping) -> str:
    """Rows whose key an earlier line has."""
    key = ", ".join(mapping.key)
    return (
        "SELECT line, id, 'the id comes again; it was in line ' || first AS detail"
        f" FROM (SELECT line, {mapping.label} AS id, first_value(line) OVER (PARTITION BY {key} ORDER BY line) AS first"
        f" FROM {stage_of(mapping.target)}) AS r WHERE line <> first"
    )


def dangling(mapping: TableMapping) -> Iterator[str]:
    """Rows that refer to what is neither in the dump nor in the tenant ($1); a statement for each reference."""
    sources = {target: source for source, (target, _) in mapping.columns.items()}
    for column, target in mapping.references.items():
        yield (
            f"SELECT s.line, s.{mapping.label} AS id, '{sources[column]} ' || s.{column}"
            f" || ' is neither in the dump nor in the tenant' AS detail FROM {stage_of(mapping.target)} AS s"
            f" WHERE s.{column} IS NOT NULL"
            f" AND NOT EXISTS (SELECT FROM {stage_of(target)} AS t WHERE t.id = s.{column})"
            f" AND NOT EXISTS (SELECT FROM {target} AS t WHERE t.tenant_id = $1 AND t.id = s.{column})"
        )


def differing(mapping: TableMapping) -> str:
    """Rows that are there in the tenant ($1) with other content."""
    return (
        f"SELECT s.line, s.{mapping.label} AS id, 'is there already with other content' AS detail"
        f" FROM {stage_of(mapping.target)} AS s"
        f" JOIN {mapping.target} AS t ON t.tenant_id = $1 AND {_same_key(mapping)} WHERE {_differs(mapping)}"
    )


def forgetting(mapping: TableMapping) -> str:
    """Takes from the stage what is there in the tenant ($1)."""
    stage = stage_of(mapping.target)
    return f"DELETE FROM {stage} AS s USING {mapping.target} AS t WHERE t.tenant_id = $1 AND {_same_key(mapping)}"


def storing(mapping: TableMapping) -> str:
    """Stores what is left on the stage, for the tenant ($1)."""
    columns = ", ".join(name for name in mapping.stored if name not in _LATER.get(mapping.target, ()))
    return f"INSERT INTO {mapping.target} (tenant_id, {columns}) SELECT $1, {columns} FROM {stage_of(mapping.target)}"


def _same_key(mapping: TableMapping) -> str:
    return " AND ".join(f"t.{name} = s.{name}" for name in mapping.key)


def _differs(mapping: TableMapping) -> str:
    """Whether a stored row is another than the staged one: by its digest, or column by column where it has none."""
    table = METADATA.tables[mapping.target]
    if "digest" in table.columns:
        return "t.digest IS DISTINCT FROM s.digest"
    names = [name for name in mapping.stored if name not in _NOT_COMPARED.get(mapping.target, ())]
    texts = {name for name in names if str(table.columns[name].type) == "JSON"}
    compared = (
        (f"t.{name}::text", f"s.{name}::text") if name in texts else (f"t.{name}", f"s.{name}") for name in names
    )
    return " OR ".join(f"{stored} IS DISTINCT FROM {staged}" for stored, staged in compared)
