"""What can be wrong with a document or a collection."""

from __future__ import annotations

from app.errors import Conflict, NotFound


class DocumentNotFound(NotFound):
    """There is no such document for this tenant, or it has expired."""

    code, title = "document_not_found", "There is no such document"


class CollectionNotFound(NotFound):
    """There is no such collection for this tenant."""

    code, title = "collection_not_found", "There is no such collection"


class DocumentNotObject(Conflict):
    """A shallow merge needs a stored object; what is stored is another JSON value."""

    code, title = "document_not_object", "The document is no JSON object"
