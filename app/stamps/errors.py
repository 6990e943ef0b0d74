"""What can be wrong with a format stamp."""

from __future__ import annotations

from app.errors import Conflict, NotFound


class StampNotFound(NotFound):
    """There is no such format stamp for this tenant."""

    code, title = "format_stamp_not_found", "There is no such format stamp"


class FormatUnsupported(Conflict):
    """The data has another format than those that the caller can read; `stored_value` and `supported_values` say which.

    Nothing was changed.
    """

    code, title = "format_unsupported", "The data has another format"


class UnversionedStore(Conflict):
    """There is data but no stamp that says which format it has; nothing was changed."""

    code, title = "unversioned_store", "There is data without a format stamp"
