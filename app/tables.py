"""Every table of the schema, gathered for migrations and checks."""

from __future__ import annotations

import app.artifacts.tables
import app.attachments.tables
import app.backups.tables
import app.checkpoints.tables
import app.contents.tables
import app.contexts.tables
import app.conversations.tables
import app.datasets.tables
import app.db.tables
import app.deadletters.tables
import app.documents.tables
import app.evaluations.tables
import app.events.tables
import app.evolution.tables
import app.http.tables
import app.invocations.tables
import app.jobs.tables
import app.leases.tables
import app.maintenance.tables
import app.mcp.tables
import app.memory.tables
import app.messages.tables
import app.nodes.tables
import app.offboarding.tables
import app.retention.tables
import app.sessions.tables
import app.stamps.tables
import app.submissions.tables
import app.tenants.tables
import app.versions.tables
import app.webhooks.tables
import app.workflows.tables  # noqa: F401
from app.db.columns import METADATA

__all__ = ["METADATA"]
