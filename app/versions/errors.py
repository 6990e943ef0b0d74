"""What can be wrong with a version."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import AppError, Conflict, InvalidInput, NotFound


class VersionNotFound(NotFound):
    """There is no such version for this tenant."""

    code, title = "version_not_found", "There is no such version"


class VersionPruned(AppError):
    """Retention has let the content of the version go; other versions descend from it, so it is still named."""

    status, code, title = 410, "version_pruned", "The content of the version is gone"


class VersionIsPruned(Conflict):
    """The content of the version is gone, so it cannot be run; post the same content again to bring it back."""

    code, title = "version_is_pruned", "The version has no content any more"


class VersionConflict(Conflict):
    """The id belongs to a version with another content or ancestry."""

    code, title = "version_conflict", "The id belongs to another version"


class GenerationNotFound(NotFound):
    """There is no such generation for this tenant."""

    code, title = "generation_not_found", "There is no such generation"


def _no_version(what: str) -> NotFound:
    return VersionNotFound(f"There is no version that {what} names.")


constraint("fk_versions_tenant_id_parent1_id", lambda: _no_version("parent1_id"))
constraint("fk_versions_tenant_id_parent2_id", lambda: _no_version("parent2_id"))
constraint("fk_versions_tenant_id_generation_id", lambda: GenerationNotFound("There is no such generation."))
constraint("fk_invocations_tenant_id_version_id", lambda: _no_version("version_id"))
constraint("fk_version_io_tenant_id_version_id", lambda: _no_version("the path"))
constraint("fk_node_versions_tenant_id_version_id", lambda: _no_version("the path"))
constraint(
    "ck_versions_not_its_own_parent",
    lambda: InvalidInput(
        "A version cannot be its own parent.", errors=[{"pointer": "/parent1_id", "message": "must be another version"}]
    ),
)
