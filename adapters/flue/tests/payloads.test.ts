import { createAttachmentRef } from "@flue/runtime/adapter";
import { afterEach, expect, it } from "vitest";

import { directInput, dispatchInput, IDENTITY, PATH, running, userRecord } from "./input.ts";
import { Tenants } from "./service.ts";

const tenants = new Tenants();
afterEach(() => tenants.close());

const connect = async () => (await tenants.create()).adapter().connect();

it("appends a batch of 36 MiB, the longest that Flue allows, and reads it back", async () => {
  const { conversationStreamStore: stream } = await connect();
  await stream.createStream(PATH, IDENTITY);
  const claim = await stream.acquireProducer(PATH, "producer-1");
  const around = JSON.stringify([userRecord("record-1", "")]).length;
  const records = [userRecord("record-1", "€".repeat(12 * 1024 * 1024 - around))];
  const batch = { path: PATH, ...claim, producerSequence: 0, records };
  const { offset } = await stream.append(batch);
  expect(await stream.append(batch)).toEqual({ offset });
  const read = await stream.read(PATH);
  expect(read.batches.length).toBe(1);
  // Compared by hand: a difference of 36 MiB is nothing to print.
  expect(JSON.stringify(read.batches[0]?.records) === JSON.stringify(records)).toBe(true);
  const longer = [userRecord("record-2", `${"€".repeat(12 * 1024 * 1024 - around)}€`)];
  await expect(stream.append({ ...batch, producerSequence: 1, records: longer })).rejects.toThrow();
});

it("admits a message with an attachment of 14 MiB of base64 and lists it", async () => {
  const { submissionStore: store } = await connect();
  const data = "QUJD".repeat((14 * 1024 * 1024) / 4);
  const message = {
    kind: "user",
    body: "Look.",
    attachments: [{ type: "image", data, mimeType: "image/png" }],
  } as const;
  const input = directInput({ message: { ...message, attachments: [...message.attachments] } });
  const admitted = await store.admitDirect(input);
  expect(JSON.stringify(admitted.input) === JSON.stringify(input)).toBe(true);
  const [listed] = await store.listUnreadySubmissions();
  expect(JSON.stringify(listed?.input) === JSON.stringify(input)).toBe(true);
});

it("keeps what few stores keep: U+0000, lone surrogates, integers past 2^53", async () => {
  const stores = await connect();
  const body = "\0 \ud800 \udc00 \u2028 €";
  const initialData = { long: 2 ** 70, "\0": ["\ud800"] };
  const input = directInput({ message: { kind: "user", body }, initialData });
  const admitted = await stores.submissionStore.admitDirect(input);
  expect(admitted.input).toEqual(JSON.parse(JSON.stringify(input)));
  const stream = stores.conversationStreamStore;
  await stream.createStream(PATH, IDENTITY);
  const claim = await stream.acquireProducer(PATH, "producer-1");
  await stream.append({ path: PATH, ...claim, producerSequence: 0, records: [userRecord("record-1", body)] });
  expect((await stream.read(PATH)).batches[0]?.records).toEqual([userRecord("record-1", body)]);
});

it("settles with an error text that no column holds", async () => {
  const stores = await connect();
  const attempt = await running(stores);
  expect(await stores.submissionStore.failSubmission(attempt, new Error("a\0b\ud800"))).toBe(true);
  expect((await stores.submissionStore.getSubmission(attempt.submissionId))?.error).toBe("a\ufffdb\ufffd");
});

it("keeps a lease and a budget to the millisecond, and none as 0", async () => {
  const { submissionStore: store } = await connect();
  await store.admitDispatch(dispatchInput());
  await store.markSubmissionCanonicalReady("dispatch-1");
  const attempt = { submissionId: "dispatch-1", attemptId: "attempt-1" };
  const claimed = await store.claimSubmission({ ...attempt, ownerId: "owner-1", leaseExpiresAt: 1_799_999_999_987 });
  expect(claimed?.leaseExpiresAt).toBe(1_799_999_999_987);
  await store.markSubmissionInputApplied(attempt, { maxAttempts: 1, timeoutAt: 1_800_000_000_001 });
  expect(await store.getSubmission("dispatch-1")).toMatchObject({ maxAttempts: 1, timeoutAt: 1_800_000_000_001 });
  await store.requeueSubmission(attempt);
  expect((await store.getSubmission("dispatch-1"))?.leaseExpiresAt).toBe(0);
});

it("lists more than one page, in order, where inputs are large", async () => {
  const { submissionStore: store } = await connect();
  const ids = Array.from({ length: 5 }, (_, index) => `dispatch-${index}`);
  const body = "x".repeat(6 * 1024 * 1024);
  for (const submissionId of ids) {
    await store.admitDispatch(dispatchInput({ submissionId, message: { kind: "user", body } }));
  }
  const listed = await store.listUnreadySubmissions();
  expect(listed.map((submission) => submission.submissionId)).toEqual(ids);
  expect(listed.every((submission) => submission.input.message.body === body)).toBe(true);
});

it("speaks to agents, instances and ids of any text", async () => {
  const stores = await connect();
  const odd = 'a/b:c#d?e["f] ä%2F';
  const store = stores.submissionStore;
  const admitted = await store.admitDirect(directInput({ submissionId: odd, agent: odd, id: odd }));
  expect(admitted.sessionKey).toBe(`agent-session:${JSON.stringify([odd, odd, "default", "default"])}`);
  expect(await store.getSubmission(odd)).toEqual(admitted);
  const stream = stores.conversationStreamStore;
  const path = `agents/${odd}/${odd}`;
  await stream.createStream(path, { agentName: odd, instanceId: odd });
  expect((await stream.getMeta(path))?.identity).toEqual({ agentName: odd, instanceId: odd });
});

it("keeps an attachment of no bytes", async () => {
  const { attachmentStore: store } = await connect();
  const bytes = new Uint8Array(0);
  const attachment = await createAttachmentRef({ id: "empty", mimeType: "text/plain", bytes });
  await store.put({ streamPath: PATH, attachment, bytes, conversationId: "conversation-1" });
  const got = await store.get({ streamPath: PATH, attachmentId: "empty", conversationId: "conversation-1" });
  expect(got).toEqual({ attachment, bytes });
});
