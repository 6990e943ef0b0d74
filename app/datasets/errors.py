"""What can be wrong with a dataset, its versions and records, or an evaluator."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import Conflict, NotFound


class DatasetNotFound(NotFound):
    """There is no such dataset for this tenant."""

    code, title = "dataset_not_found", "There is no such dataset"


class DatasetConflict(Conflict):
    """The id belongs to a dataset that was created with other fields."""

    code, title = "dataset_conflict", "The id belongs to another dataset"


class DatasetInUse(Conflict):
    """Invocations refer to records of the dataset; `invocation_ids` names some of them."""

    code, title = "dataset_in_use", "Invocations refer to the dataset"


class DatasetTooLarge(Conflict):
    """More than `limit` records and versions belong to the dataset, so that only a job deletes it."""

    code, title = "dataset_too_large", "Only a job deletes so large a dataset"


class DatasetVersionNotFound(NotFound):
    """The dataset has no such version."""

    code, title = "dataset_version_not_found", "The dataset has no such version"


class DatasetVersionConflict(Conflict):
    """The id belongs to a version of the dataset that was created with other fields."""

    code, title = "dataset_version_conflict", "The id belongs to another version of the dataset"


class DatasetRecordNotFound(NotFound):
    """There is no such dataset record; `missing_ids` names every one that was asked for and is not there."""

    code, title = "dataset_record_not_found", "There is no such dataset record"


class DatasetRecordConflict(Conflict):
    """An id belongs to a record created with other fields or in another dataset; `ids` names each."""

    code, title = "dataset_record_conflict", "The id belongs to another dataset record"


class DatasetRecordInUse(Conflict):
    """Invocations refer to the record."""

    code, title = "dataset_record_in_use", "Invocations refer to the dataset record"


class EvaluatorNotFound(NotFound):
    """There is no such evaluator for this tenant."""

    code, title = "evaluator_not_found", "There is no such evaluator"


class EvaluatorConflict(Conflict):
    """The id belongs to an evaluator that was created with other fields."""

    code, title = "evaluator_conflict", "The id belongs to another evaluator"


class EvaluatorInUse(Conflict):
    """Something that stays refers to the evaluator."""

    code, title = "evaluator_in_use", "Something refers to the evaluator"


for _child in ("dataset_versions", "dataset_records"):
    constraint(f"fk_{_child}_tenant_id_dataset_id", lambda: DatasetNotFound("There is no such dataset."))
constraint(
    "fk_dataset_records_dataset_version_id",
    lambda: DatasetVersionNotFound("What dataset_version_id names is no version of the dataset."),
)
