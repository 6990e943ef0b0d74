"""Calls about what is run: workflows, their versions, and the nodes of a version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, Unpack

from app.client.bodies import (
    NodeFields,
    Paging,
    Payload,
    VersionFields,
    VersionFilter,
    WalkFilter,
    WorkflowFields,
    WorkflowFilter,
)
from app.client.call import Call, Page, exact, items_of, one, page_of, path, query
from app.client.endpoint import Resource, endpoint, listing
from app.client.exact import Json, dump
from app.client.models import CommonAncestor, Difference, Genealogy, NodeVersion, Relative, Version, Workflow
from app.client.operations import Job, job_if_any
from app.client.record import Record

M = TypeVar("M")


class Workflows(Resource[M]):
    """Named lines of versions."""

    @endpoint
    def ensure(self, workflow_id: str, **fields: Unpack[WorkflowFields]) -> Call[Workflow]:
        """Create the workflow, or update the fields given."""
        return Call("PUT", path("workflows", workflow_id), one(Workflow), body=dump(fields))

    @endpoint
    def create(self, workflow_id: str | None = None, **fields: Unpack[WorkflowFields]) -> Call[Workflow]:
        """Create a workflow; without an id the service makes one."""
        body = fields if workflow_id is None else {"id": workflow_id, **fields}
        return Call("POST", path("workflows"), one(Workflow), body=dump(body))

    @endpoint
    def get(self, workflow_id: str) -> Call[Workflow]:
        """One workflow."""
        return Call("GET", path("workflows", workflow_id), one(Workflow))

    @listing
    def list(self, **filters: Unpack[WorkflowFilter]) -> Call[Page[Workflow]]:
        """Workflows with their version counts and latest version ids."""
        return Call("GET", path("workflows"), page_of(Workflow), query(filters))

    @endpoint
    def patch(self, workflow_id: str, **fields: Unpack[WorkflowFields]) -> Call[Workflow]:
        """Change the fields given."""
        return Call("PATCH", path("workflows", workflow_id), one(Workflow), body=dump(fields))

    @endpoint
    def delete(self, workflow_id: str, *, cascade: bool = False) -> Call[Job | None]:
        """Delete a workflow: at once while it has no versions, as a job with everything below it when `cascade`."""
        return Call("DELETE", path("workflows", workflow_id), job_if_any, query({"cascade": cascade or None}))

    @endpoint
    def genealogy(self, workflow_id: str, *, limit: int | None = None) -> Call[Genealogy]:
        """The workflow's newest versions, at most `limit`, with all their parents, as nodes and edges."""
        return Call("GET", path("workflows", workflow_id, "genealogy"), one(Genealogy), query({"limit": limit}))


class Versions(Resource[M]):
    """Immutable versions."""

    @endpoint
    def create(
        self,
        workflow_id: str,
        *,
        on_existing: Literal["keep"] | None = None,
        include: Sequence[str] = (),
        **fields: Unpack[VersionFields],
    ) -> Call[Version]:
        """Create a version, with its workflow and nodes if given, in one transaction; the same again is a replay."""
        parameters = query({"on_existing": on_existing, "include": include})
        return Call("POST", path("workflows", workflow_id, "versions"), one(Version), parameters, dump(fields))

    @endpoint
    def get(self, version_id: str, *, include: Sequence[str] = ()) -> Call[Version]:
        """One version; `include=["dsl"]` shows its DSL."""
        return Call("GET", path("versions", version_id), one(Version), query({"include": include}))

    @endpoint
    def exists(self, version_id: str) -> Call[bool]:
        """Whether there is such a version."""
        return Call("HEAD", path("versions", version_id), lambda reply: reply.status != 404, also=frozenset({404}))

    @endpoint
    def dsl(self, version_id: str) -> Call[Json]:
        """The version's DSL, exactly as it was sent. Raises `VersionPrunedError` where it left by a rule."""
        return Call("GET", path("versions", version_id, "dsl"), exact)

    @listing
    def list(self, **filters: Unpack[VersionFilter]) -> Call[Page[Version]]:
        """Versions of any workflow."""
        return Call("GET", path("versions"), page_of(Version), query(filters))

    @listing
    def list_of(self, workflow_id: str, **paging: Unpack[Paging]) -> Call[Page[Version]]:
        """The versions of one workflow."""
        return Call("GET", path("workflows", workflow_id, "versions"), page_of(Version), query(paging))

    @endpoint
    def latest(self, workflow_id: str | None = None, *, include: Sequence[str] = ()) -> Call[Version]:
        """The latest version of a workflow, or of the whole tenant."""
        owner = () if workflow_id is None else ("workflows", workflow_id)
        return Call("GET", path(*owner, "versions", "latest"), one(Version), query({"include": include}))

    @listing
    def ancestors(self, version_id: str, **filters: Unpack[WalkFilter]) -> Call[Page[Relative]]:
        """What a version descends from, the nearest first, each once at its smallest depth."""
        return Call("GET", path("versions", version_id, "ancestors"), page_of(Relative), query(filters))

    @listing
    def descendants(self, version_id: str, **filters: Unpack[WalkFilter]) -> Call[Page[Relative]]:
        """What descends from a version, the nearest first, each once at its smallest depth."""
        return Call("GET", path("versions", version_id, "descendants"), page_of(Relative), query(filters))

    @listing
    def common_ancestors(
        self, version_id: str, other_id: str, **filters: Unpack[WalkFilter]
    ) -> Call[Page[CommonAncestor]]:
        """What both descend from, the nearest first; a version counts as its own ancestor at depth 0."""
        target = path("versions", version_id, "common-ancestors", other_id)
        return Call("GET", target, page_of(CommonAncestor), query(filters))

    @endpoint
    def diff(self, version_id: str, other_id: str) -> Call[Difference]:
        """The JSON Patch that makes the DSL of the first version that of the second."""
        return Call("GET", path("versions", version_id, "diff", other_id), one(Difference))

    @endpoint
    def io(self, version_id: str) -> Call[Json]:
        """The version's inputs and outputs, exactly as they were sent."""
        return Call("GET", path("versions", version_id, "io"), exact)

    @endpoint
    def set_io(self, version_id: str, io: Payload) -> Call[Record]:
        """Replace the version's inputs and outputs."""
        return Call("PUT", path("versions", version_id, "io"), one(Record), body=dump(io))


class Nodes(Resource[M]):
    """The nodes of a version: their configurations and their memory."""

    @endpoint
    def record(self, version_id: str, **fields: Unpack[NodeFields]) -> Call[NodeVersion]:
        """Record a node's configuration: the same is a replay, another is the node's next revision."""
        return Call("POST", path("versions", version_id, "nodes"), one(NodeVersion), body=dump(fields))

    @endpoint
    def record_many(self, version_id: str, items: Sequence[NodeFields]) -> Call[Sequence[NodeVersion]]:
        """Record the configurations of many nodes, all or none."""
        return Call("POST", path("versions", version_id, "nodes"), items_of(NodeVersion), body=dump({"items": items}))

    @listing
    def list(self, version_id: str, **paging: Unpack[Paging]) -> Call[Page[NodeVersion]]:
        """The node versions of one version."""
        return Call("GET", path("versions", version_id, "nodes"), page_of(NodeVersion), query(paging))

    @listing
    def search(
        self,
        *,
        llm_model: str | None = None,
        not_llm_model: str | None = None,
        node_id: str | None = None,
        **paging: Unpack[Paging],
    ) -> Call[Page[NodeVersion]]:
        """Node versions of any version; `not_llm_model` finds those on any other model."""
        filters = {"llm_model": llm_model, "not_llm_model": not_llm_model, "node_id": node_id, **paging}
        return Call("GET", path("node-versions"), page_of(NodeVersion), query(filters))

    @endpoint
    def memory(self, version_id: str, node_id: str) -> Call[Record]:
        """A node's memory; its `etag` guards a later change."""
        return Call("GET", path("versions", version_id, "nodes", node_id, "memory"), one(Record))

    @endpoint
    def set_memory(self, version_id: str, node_id: str, memory: Mapping[str, Any]) -> Call[Record]:
        """Replace a node's memory."""
        return Call("PUT", path("versions", version_id, "nodes", node_id, "memory"), one(Record), body=dump(memory))

    @endpoint
    def merge_memory(self, version_id: str, node_id: str, patch: Mapping[str, Any]) -> Call[Record]:
        """Merge into a node's memory (RFC 7396: null removes a member)."""
        return Call("PATCH", path("versions", version_id, "nodes", node_id, "memory"), one(Record), body=dump(patch))
