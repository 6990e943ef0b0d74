"""What can be wrong with an artifact, or with a reference to one."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import AppError, NotFound
from app.invocations.errors import InvocationNotFound


class ArtifactNotFound(NotFound):
    """There is no such artifact for this tenant: it was never sent whole, or nothing referred to it for too long."""

    code, title = "artifact_not_found", "There is no such artifact"


class ArtifactReferenceNotFound(NotFound):
    """The invocation has no artifact under this name."""

    code, title = "artifact_reference_not_found", "The invocation has no artifact under this name"


class ArtifactIntegrity(AppError):
    """The bytes are not those that their hash promises.

    On a write (422) nothing was stored. On a read (500) what is stored has been damaged, or is gone.
    """

    status, code, title = 422, "artifact_integrity", "The bytes are not those that were promised"


class ArtifactDamaged(ArtifactIntegrity):
    """The stored bytes do not fit their hash; none of the false ones was sent. Send them again to store them anew."""

    status = 500


constraint("fk_artifact_references_tenant_id_invocation_id", lambda: InvocationNotFound("There is no such invocation."))
