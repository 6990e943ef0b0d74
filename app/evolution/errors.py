"""What can be wrong with an evolution run or one of its generations."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import Conflict, NotFound
from app.versions.errors import GenerationNotFound, VersionNotFound


class EvolutionRunNotFound(NotFound):
    """There is no such evolution run for this tenant."""

    code, title = "evolution_run_not_found", "There is no such evolution run"


class EvolutionRunConflict(Conflict):
    """The id belongs to an evolution run that was created with other fields."""

    code, title = "evolution_run_conflict", "The id belongs to another evolution run"


class EvolutionRunEnded(Conflict):
    """The run has ended; its first terminal state stays until it is reopened."""

    code, title = "evolution_run_ended", "The evolution run has ended"


class CheckpointNotFound(NotFound):
    """No checkpoint of this run was written yet."""

    code, title = "checkpoint_not_found", "The run has no checkpoint"


class GenerationConflict(Conflict):
    """The id or the number belongs to a generation that was created with other fields."""

    code, title = "generation_conflict", "The id or number belongs to another generation"


class GenerationCompleted(Conflict):
    """The generation is complete; its first completion stays."""

    code, title = "generation_completed", "The generation is complete"


class NoCompletedGeneration(NotFound):
    """No generation of this run is complete yet."""

    code, title = "no_completed_generation", "The run has no completed generation"


constraint("fk_generations_tenant_id_run_id", lambda: EvolutionRunNotFound("There is no such evolution run."))
constraint("fk_run_checkpoints_tenant_id_run_id", lambda: EvolutionRunNotFound("There is no such evolution run."))
constraint("pk_generations", lambda: GenerationConflict("The generation's id belongs to another generation."))
constraint(
    "fk_generations_tenant_id_best_version_id",
    lambda: VersionNotFound("There is no version that best_version_id names.", pointer="/best_version_id"),
)
constraint(
    "fk_generation_members_tenant_id_version_id", lambda: VersionNotFound("A member names a version that is not there.")
)
constraint("fk_generation_members_tenant_id_generation_id", lambda: GenerationNotFound("There is no such generation."))
