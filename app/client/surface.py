"""Every group of calls, gathered for each mode."""

from __future__ import annotations

from typing import Generic, TypeVar

from app.client.artifacts import Artifacts, AsyncArtifacts, SyncArtifacts
from app.client.attachments import AsyncAttachments, Attachments, SyncAttachments
from app.client.backups import AsyncBackups, Backups, SyncBackups
from app.client.contexts import AsyncContexts, Contexts, SyncContexts
from app.client.conversations import Conversations
from app.client.costs import CostReports
from app.client.datasets import DatasetRecords, Datasets, Evaluators
from app.client.dead_letters import DeadLetters
from app.client.documents import Documents
from app.client.evolution import EvolutionRuns, Generations
from app.client.invocations import Invocations, Messages, NodeInvocations
from app.client.leases import Leases
from app.client.live import AsyncConversations, AsyncEvents, SyncConversations, SyncEvents
from app.client.maintenance import Maintenance
from app.client.mcp import McpServers, McpTools, McpVersions
from app.client.mcp_configs import McpConfigs
from app.client.memory import MemoryDocuments, MemoryRecords, MemorySpaces
from app.client.memory_search import Memory
from app.client.offboardings import AsyncOffboardings, Offboardings, SyncOffboardings
from app.client.operations import ApiKeys, Events, Jobs, Service, Tenants
from app.client.retention import Pins, RetentionRules
from app.client.sessions import Checkpoints, Sessions
from app.client.stamps import FormatStamps
from app.client.submissions import AttemptMarkers, Submissions
from app.client.transport import AsyncTransport, SyncTransport
from app.client.webhooks import Deliveries, Webhooks
from app.client.workflows import Nodes, Versions, Workflows

M = TypeVar("M")


class Surface(Generic[M]):
    """Every group of calls, in one mode."""

    def __init__(self, mode: M) -> None:
        self._mode = mode
        self.service: Service[M] = Service(mode)
        self.tenants: Tenants[M] = Tenants(mode)
        self.offboardings: Offboardings[M] = Offboardings(mode)
        self.api_keys: ApiKeys[M] = ApiKeys(mode)
        self.jobs: Jobs[M] = Jobs(mode)
        self.events: Events[M] = Events(mode)
        self.workflows: Workflows[M] = Workflows(mode)
        self.versions: Versions[M] = Versions(mode)
        self.nodes: Nodes[M] = Nodes(mode)
        self.invocations: Invocations[M] = Invocations(mode)
        self.node_invocations: NodeInvocations[M] = NodeInvocations(mode)
        self.messages: Messages[M] = Messages(mode)
        self.sessions: Sessions[M] = Sessions(mode)
        self.checkpoints: Checkpoints[M] = Checkpoints(mode)
        self.contexts: Contexts[M] = Contexts(mode)
        self.datasets: Datasets[M] = Datasets(mode)
        self.dataset_records: DatasetRecords[M] = DatasetRecords(mode)
        self.evaluators: Evaluators[M] = Evaluators(mode)
        self.costs: CostReports[M] = CostReports(mode)
        self.evolution_runs: EvolutionRuns[M] = EvolutionRuns(mode)
        self.generations: Generations[M] = Generations(mode)
        self.mcp_servers: McpServers[M] = McpServers(mode)
        self.mcp_versions: McpVersions[M] = McpVersions(mode)
        self.mcp_tools: McpTools[M] = McpTools(mode)
        self.mcp_configs: McpConfigs[M] = McpConfigs(mode)
        self.maintenance: Maintenance[M] = Maintenance(mode)
        self.retention: RetentionRules[M] = RetentionRules(mode)
        self.pins: Pins[M] = Pins(mode)
        self.submissions: Submissions[M] = Submissions(mode)
        self.attempt_markers: AttemptMarkers[M] = AttemptMarkers(mode)
        self.conversations: Conversations[M] = Conversations(mode)
        self.attachments: Attachments[M] = Attachments(mode)
        self.memory: Memory[M] = Memory(mode)
        self.memory_spaces: MemorySpaces[M] = MemorySpaces(mode)
        self.artifacts: Artifacts[M] = Artifacts(mode)
        self.backups: Backups[M] = Backups(mode)
        self.documents: Documents[M] = Documents(mode)
        self.memory_documents: MemoryDocuments[M] = MemoryDocuments(mode)
        self.memory_records: MemoryRecords[M] = MemoryRecords(mode)
        self.format_stamps: FormatStamps[M] = FormatStamps(mode)
        self.dead_letters: DeadLetters[M] = DeadLetters(mode)
        self.leases: Leases[M] = Leases(mode)
        self.webhooks: Webhooks[M] = Webhooks(mode)
        self.deliveries: Deliveries[M] = Deliveries(mode)


class SyncSurface(Surface[SyncTransport]):
    """Every group of calls for ordinary code, with what streams."""

    events: SyncEvents
    conversations: SyncConversations
    attachments: SyncAttachments
    contexts: SyncContexts
    artifacts: SyncArtifacts
    backups: SyncBackups
    offboardings: SyncOffboardings

    def __init__(self, mode: SyncTransport) -> None:
        super().__init__(mode)
        self.events = SyncEvents(mode)
        self.conversations = SyncConversations(mode)
        self.attachments = SyncAttachments(mode)
        self.contexts = SyncContexts(mode)
        self.artifacts = SyncArtifacts(mode)
        self.backups = SyncBackups(mode)
        self.offboardings = SyncOffboardings(mode)


class AsyncSurface(Surface[AsyncTransport]):
    """Every group of calls for the event loop, with what streams."""

    events: AsyncEvents
    conversations: AsyncConversations
    attachments: AsyncAttachments
    contexts: AsyncContexts
    artifacts: AsyncArtifacts
    backups: AsyncBackups
    offboardings: AsyncOffboardings

    def __init__(self, mode: AsyncTransport) -> None:
        super().__init__(mode)
        self.events = AsyncEvents(mode)
        self.conversations = AsyncConversations(mode)
        self.attachments = AsyncAttachments(mode)
        self.contexts = AsyncContexts(mode)
        self.artifacts = AsyncArtifacts(mode)
        self.backups = AsyncBackups(mode)
        self.offboardings = AsyncOffboardings(mode)
