"""What can be wrong with a version."""

from __future__ import annotations

from app.errors import NotFound


class VersionNotFound(NotFound):
    """There is no such version for this tenant."""

    code, title = "version_not_found", "There is no such version"
