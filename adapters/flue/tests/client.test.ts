import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";

import { AttachmentIntegrityError, ConversationStreamStoreError } from "@flue/runtime/adapter";
import { afterEach, expect, it } from "vitest";
import { CairnAttachmentStore } from "../src/attachments.ts";
import { Client } from "../src/client.ts";
import { ConversationStore } from "../src/conversations.ts";
import { CairnError, type CairnOptions, type CairnStores, cairn } from "../src/index.ts";
import { SubmissionStore } from "../src/submissions.ts";
import { Subscriptions } from "../src/subscriptions.ts";
import { PATH, userRecord } from "./input.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

interface Reply {
  readonly status: number;
  readonly code?: string;
  readonly headers?: Record<string, string>;
}

/** A service that gives these replies in turn, the last one for ever, and keeps what it was asked. */
async function serving(...replies: [Reply, ...Reply[]]) {
  const asked: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    const reply = replies[Math.min(asked.length, replies.length - 1)] ?? replies[0];
    asked.push(request);
    request.resume().on("end", () => {
      response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers });
      response.end(JSON.stringify(reply.code ? { code: reply.code, detail: "So it is." } : { unsettled: false }));
    });
  });
  servers.push(server);
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { asked, options: { url, apiKey: "key", retryForMs: 5_000 } satisfies CairnOptions };
}

const keysOf = (asked: IncomingMessage[]) => asked.map((request) => request.headers["idempotency-key"]);
const unreachable: CairnOptions = {
  url: "http://cairn.test",
  apiKey: "key",
  fetch: () => Promise.reject(new Error("Nothing was to be sent.")),
  retryForMs: 0,
};

it.each([
  { status: 503, code: "database_unavailable" },
  { status: 502 },
  { status: 429, code: "rate_limited", headers: { "retry-after": "0" } },
  { status: 409, code: "idempotency_in_progress" },
])("tries again with the same key after $status", async (reply) => {
  const { asked, options } = await serving(reply, reply, { status: 200 });
  await new SubmissionStore(new Client(options)).renewLeases("owner-1", ["submission-1"]);
  expect(asked).toHaveLength(3);
  expect(new Set(keysOf(asked)).size).toBe(1);
  expect(keysOf(asked)[0]).toBeDefined();
});

it("makes a key for each call and none for reads", async () => {
  const { asked, options } = await serving({ status: 200 });
  const store = new SubmissionStore(new Client(options));
  const attempt = { submissionId: "submission-1", attemptId: "attempt-1" };
  await store.completeSubmission(attempt);
  await store.completeSubmission(attempt);
  await store.hasUnsettledSubmissions();
  expect(new Set(keysOf(asked)).size).toBe(3);
  expect(keysOf(asked)[2]).toBeUndefined();
});

it("does not try again what was refused", async () => {
  const { asked, options } = await serving({ status: 409, code: "stale_attempt" });
  const store = new SubmissionStore(new Client(options));
  expect(await store.completeSubmission({ submissionId: "submission-1", attemptId: "attempt-1" })).toBe(false);
  expect(asked).toHaveLength(1);
});

it.each([
  { status: 404, code: "not_found" },
  { status: 403, code: "forbidden" },
  { status: 500, code: "persistence_error" },
  { status: 422, code: "idempotency_key_reused" },
])("takes $code for no answer of the ledger", async (reply) => {
  const { options } = await serving(reply);
  const store = new SubmissionStore(new Client(options));
  await expect(store.getSubmission("submission-1")).rejects.toBeInstanceOf(CairnError);
});

it("gives up after its bound and throws the last failure", async () => {
  const { options } = await serving({ status: 503, code: "database_unavailable" });
  const store = new SubmissionStore(new Client({ ...options, retryForMs: 200 }));
  await expect(store.hasUnsettledSubmissions()).rejects.toThrow("database_unavailable (503): So it is.");
});

it("names the option that is missing", () => {
  expect(() => cairn({ url: undefined, apiKey: "key" })).toThrow("CAIRN_URL");
  expect(() => cairn({ url: "http://cairn.test", apiKey: "" })).toThrow("CAIRN_API_KEY");
});

it("fails at boot when the service cannot be reached", async () => {
  await expect(cairn(unreachable).connect()).rejects.toThrow("Nothing was to be sent.");
  await expect(cairn(unreachable).migrate()).rejects.toThrow("Nothing was to be sent.");
});

it("refuses before it sends anything", async () => {
  const client = new Client(unreachable);
  const stream: CairnStores["conversationStreamStore"] = new ConversationStore(client, new Subscriptions(client));
  const claim = { path: PATH, producerId: "p", producerEpoch: 1, incarnation: "i", producerSequence: 0 };
  await expect(stream.read(PATH, { offset: "nowhere" })).rejects.toThrow("Invalid stream offset");
  await expect(stream.getFoldCheckpoint(PATH, { atOrBefore: "nowhere" })).rejects.toThrow("Invalid stream offset");
  await expect(stream.append({ ...claim, records: [] })).rejects.toBeInstanceOf(ConversationStreamStoreError);
  const long = [userRecord("record-1", "x".repeat(12 * 1024 * 1024))];
  await expect(stream.append({ ...claim, records: long })).rejects.toBeInstanceOf(ConversationStreamStoreError);
  const attachment = { id: "a", mimeType: "text/plain", size: 1, digest: "0".repeat(64) };
  const put = { streamPath: PATH, attachment, bytes: new Uint8Array(2), conversationId: "c" };
  await expect(new CairnAttachmentStore(client).put(put)).rejects.toBeInstanceOf(AttachmentIntegrityError);
});
