import { createAttachmentRef } from "@flue/runtime/adapter";
import { afterEach, describe, expect, it } from "vitest";

import { AGENT, dispatchInput, IDENTITY, PATH, running, userRecord } from "./input.ts";
import { losingAnswers } from "./losing.ts";
import { type Tenant, Tenants } from "./service.ts";

const tenants = new Tenants();
afterEach(() => tenants.close());

// What Flue's contract had before 2.0, and its published suites no longer test.
describe.each([
  ["answers arrive", () => fetch],
  ["every first answer is lost", () => losingAnswers()],
])("the surface of Flue before 2.0, where %s", (_label, makeFetch) => {
  const connect = async (tenant?: Tenant) =>
    (tenant ?? (await tenants.create())).adapter({ fetch: makeFetch() }).connect();

  it("keeps the ledger behind executionStore as well", async () => {
    const stores = await connect();
    await running(stores);
    expect(await stores.executionStore.submissions.listRunningSubmissions()).toHaveLength(1);
  });

  it("stamps the first recovery request of the owner, and a replaced attempt clears it", async () => {
    const stores = await connect();
    const { submissions } = stores.executionStore;
    const attempt = await running(stores);
    expect(await submissions.requestSubmissionRecovery({ ...attempt, attemptId: "stale" })).toBe(false);
    expect(await submissions.requestSubmissionRecovery(attempt)).toBe(true);
    const first = (await submissions.getSubmission(attempt.submissionId))?.recoveryRequestedAt;
    expect(first).toEqual(expect.any(Number));
    expect(await submissions.requestSubmissionRecovery(attempt)).toBe(true);
    expect((await submissions.getSubmission(attempt.submissionId))?.recoveryRequestedAt).toBe(first);
    const replaced = await submissions.replaceSubmissionAttempt(attempt, "attempt-2");
    expect(replaced).toMatchObject({ attemptId: "attempt-2", attemptCount: 2 });
    expect(replaced?.recoveryRequestedAt).toBeUndefined();
  });

  it("keeps the first time of an attempt marker, and deletes the exact pair alone", async () => {
    const { submissions } = (await connect()).executionStore;
    const marker = { submissionId: "dispatch-1", attemptId: "attempt 1/ä" };
    const before = Date.now();
    await submissions.insertAttemptMarker(marker);
    const [first] = await submissions.listAttemptMarkers();
    expect(first).toMatchObject(marker);
    expect(first?.createdAt).toBeGreaterThanOrEqual(before);
    await submissions.insertAttemptMarker(marker);
    await submissions.deleteAttemptMarker({ ...marker, attemptId: "another" });
    expect(await submissions.listAttemptMarkers()).toEqual([first]);
    await submissions.deleteAttemptMarker(marker);
    await submissions.deleteAttemptMarker(marker);
    expect(await submissions.listAttemptMarkers()).toEqual([]);
  });

  it("deletes a conversation with its batches", async () => {
    const { conversationStreamStore: stream } = await connect();
    await stream.createStream(PATH, IDENTITY);
    const claim = await stream.acquireProducer(PATH, "producer-1");
    const batch = { path: PATH, ...claim, producerSequence: 0, records: [userRecord("record-1", "Hello")] };
    await stream.append(batch);
    await stream.delete(PATH);
    await stream.delete(PATH);
    expect(await stream.getMeta(PATH)).toBeNull();
    expect(await stream.read(PATH)).toEqual({ batches: [], nextOffset: "-1", upToDate: true });
    await stream.createStream(PATH, IDENTITY);
    await expect(stream.append(batch)).rejects.toMatchObject({
      meta: { operation: "append", path: PATH, reason: expect.stringContaining("stale_producer") },
    });
  });

  it("deletes the attachments of one instance", async () => {
    const { attachmentStore: store } = await connect();
    const bytes = Uint8Array.from([1, 2, 3]);
    const attachment = await createAttachmentRef({
      id: "a/1 ä",
      mimeType: "image/png",
      bytes,
      filename: "ein Bild ä.png",
    });
    const other = `agents/${AGENT}/other`;
    for (const streamPath of [PATH, other]) {
      await store.put({ streamPath, attachment, bytes, conversationId: "conversation-1" });
    }
    await store.deleteForInstance(PATH);
    const get = { conversationId: "conversation-1", attachmentId: attachment.id };
    expect(await store.get({ ...get, streamPath: PATH })).toBeNull();
    expect(await store.get({ ...get, streamPath: other })).toEqual({ attachment, bytes });
  });

  it("answers the same admission again whatever happened to the row", async () => {
    const stores = await connect();
    const attempt = await running(stores);
    await stores.submissionStore.completeSubmission(attempt);
    const again = await stores.executionStore.submissions.admitDispatch(dispatchInput());
    expect(again).toMatchObject({ kind: "submission", submission: { status: "settled" } });
  });

  it("runs nothing again that was settled and removed: a receipt before 2.0, a settled submission since", async () => {
    const tenant = await tenants.create();
    const { executionStore, submissionStore } = await connect(tenant);
    await submissionStore.completeSubmission(await running({ submissionStore }));
    await tenant.request("DELETE", "/v1/submissions/dispatch-1");
    expect(await submissionStore.getSubmission("dispatch-1")).toBeNull();
    const acceptedAt = Date.parse(dispatchInput().acceptedAt);
    expect(await executionStore.submissions.admitDispatch(dispatchInput())).toEqual({
      kind: "retained_receipt",
      receipt: { submissionId: "dispatch-1", acceptedAt },
    });
    expect(await submissionStore.admitDispatch(dispatchInput())).toMatchObject({
      kind: "submission",
      submission: { submissionId: "dispatch-1", status: "settled", acceptedAt, canonicalReadyAt: acceptedAt },
    });
    expect(await submissionStore.listUnreadySubmissions()).toEqual([]);
  });
});
