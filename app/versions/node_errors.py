"""What can be wrong with a node of a version."""

from __future__ import annotations

from app.db.integrity import constraint
from app.errors import Conflict, NotFound


class NodeVersionMissing(NotFound):
    """The version has no node of that name."""

    code, title = "node_version_missing", "The version has no such node"


class NodeVersionConflict(Conflict):
    """The id belongs to another node version, or the configuration is stored under another id."""

    code, title = "node_version_conflict", "The id does not belong to this configuration"


constraint("pk_node_versions", lambda: NodeVersionConflict("The id belongs to another node version."))
constraint("fk_node_memories_tenant_id_version_id", lambda: NodeVersionMissing("No version has this node any more."))
