import type { AgentSubmissionInput, ConversationRecord, DispatchInput } from "@flue/runtime/adapter";

import type { CairnStores } from "../src/index.ts";

export const AGENT = "assistant";
export const INSTANCE = "agent-1";
export const PATH = `agents/${AGENT}/${INSTANCE}`;
export const IDENTITY = { agentName: AGENT, instanceId: INSTANCE };

export function dispatchInput(overrides: Partial<DispatchInput> = {}): DispatchInput {
  return {
    submissionId: "dispatch-1",
    agent: AGENT,
    id: INSTANCE,
    message: { kind: "signal", type: "test.event", body: "Hello" },
    acceptedAt: "2026-06-03T00:00:00.000Z",
    ...overrides,
  };
}

export function directInput(overrides: Partial<AgentSubmissionInput> = {}): AgentSubmissionInput {
  return {
    kind: "direct",
    submissionId: "direct-1",
    agent: AGENT,
    id: INSTANCE,
    message: { kind: "user", body: "Hello" },
    acceptedAt: "2026-06-03T00:00:00.000Z",
    ...overrides,
  };
}

export function userRecord(id: string, text: string): ConversationRecord {
  return {
    v: 1,
    id,
    type: "user_message",
    conversationId: "conversation-1",
    harness: "default",
    session: "default",
    timestamp: "2026-06-25T00:00:00.000Z",
    messageId: `message-${id}`,
    parentId: null,
    content: [{ type: "text", text }],
  };
}

/** Admits a dispatch and claims it under `attempt-1`. */
export async function running(stores: Pick<CairnStores, "submissionStore">, submissionId = "dispatch-1") {
  const store = stores.submissionStore;
  await store.admitDispatch(dispatchInput({ submissionId }));
  await store.markSubmissionCanonicalReady(submissionId);
  const attempt = { submissionId, attemptId: "attempt-1" };
  const claimed = await store.claimSubmission({ ...attempt, ownerId: "owner-1", leaseExpiresAt: Date.now() + 30_000 });
  if (claimed === null) throw new Error("The submission could not be claimed.");
  return attempt;
}
