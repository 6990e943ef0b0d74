import type {
  ConversationFoldCheckpoint,
  ConversationProducerClaim,
  ConversationRecord,
  ConversationStreamIdentity,
  ConversationStreamMeta,
  ConversationStreamReadResult,
  ConversationStreamStore,
} from "@flue/runtime/adapter";
import {
  ConversationStreamStoreError,
  clampLimit,
  DEFAULT_READ_LIMIT,
  formatOffset,
  MAX_READ_LIMIT,
  parseOffset,
} from "@flue/runtime/adapter";

import type { Answer } from "./answer.ts";
import type { Client } from "./client.ts";
import { CairnError } from "./errors.ts";
import type { Subscriptions } from "./subscriptions.ts";

const CONVERSATIONS = "/v1/conversations";
const CHECKPOINT = `${CONVERSATIONS}/checkpoint`;
/** Flue's ceiling for the JSON of one batch, in UTF-16 code units. As UTF-8 it may be three times as long. */
const BATCH_UNITS_MAX = 12 * 1024 * 1024;
/** What the service answers to a request that it will never grant. */
const REJECTED = new Set([400, 404, 409, 410, 413, 422]);

type Append = Parameters<ConversationStreamStore["append"]>[0];

/** The canonical streams of agent instances, and the deletion of one, which Flue had before 2.0. */
export class ConversationStore implements ConversationStreamStore {
  readonly #client: Client;
  readonly #subscriptions: Subscriptions;

  constructor(client: Client, subscriptions: Subscriptions) {
    this.#client = client;
    this.#subscriptions = subscriptions;
  }

  async createStream(path: string, identity: ConversationStreamIdentity): Promise<void> {
    const body = JSON.stringify({
      path,
      identity: { agent_name: identity.agentName, instance_id: identity.instanceId },
    });
    await rejecting("create", path, this.#client.write("PUT", CONVERSATIONS, { body }));
  }

  async acquireProducer(path: string, producerId: string): Promise<ConversationProducerClaim> {
    const body = JSON.stringify({ path, producer_id: producerId });
    const call = this.#client.write("POST", `${CONVERSATIONS}/acquire`, { body });
    const claim = await rejecting("acquire_producer", path, call);
    return {
      producerId: claim.text("producer_id"),
      producerEpoch: claim.integer("producer_epoch"),
      incarnation: claim.text("incarnation"),
      nextProducerSequence: claim.integer("next_producer_sequence"),
      offset: claim.text("offset"),
    };
  }

  async append(input: Append): Promise<{ offset: string }> {
    if (input.records.length === 0) throw failure("append", input.path, "A canonical batch cannot be empty.");
    const records = JSON.stringify(input.records);
    if (records.length > BATCH_UNITS_MAX) {
      throw failure("append", input.path, `A batch holds ${BATCH_UNITS_MAX} UTF-16 code units of JSON at most.`);
    }
    const call = this.#client.write("POST", `${CONVERSATIONS}/append`, { body: appendBody(input, records) });
    const offset = (await rejecting("append", input.path, call)).text("offset");
    this.#subscriptions.appended(input.path, offset, input.incarnation);
    return { offset };
  }

  async read(path: string, options?: { offset?: string; limit?: number }): Promise<ConversationStreamReadResult> {
    const offset = options?.offset ?? "-1";
    const limit = Math.ceil(clampLimit(options?.limit, DEFAULT_READ_LIMIT, MAX_READ_LIMIT));
    const query = { path, offset: offset === "now" ? offset : canonical(path, offset), limit: String(limit) };
    const page = await rejecting("read", path, this.#client.read(`${CONVERSATIONS}/read`, query));
    return {
      batches: page.list("batches").map((batch) => ({
        offset: batch.text("offset"),
        records: batch.value("records") as ConversationRecord[],
      })),
      nextOffset: page.text("next_offset"),
      upToDate: page.flag("up_to_date"),
    };
  }

  async getMeta(path: string): Promise<ConversationStreamMeta | null> {
    const meta = await absent("conversation_not_found", this.#client.read(`${CONVERSATIONS}/meta`, { path }));
    if (meta === null) return null;
    const identity = meta.object("identity");
    return {
      identity: { agentName: identity.text("agent_name"), instanceId: identity.text("instance_id") },
      incarnation: meta.text("incarnation"),
      nextOffset: meta.text("next_offset"),
      producerId: meta.optionalText("producer_id") ?? null,
      producerEpoch: meta.integer("producer_epoch"),
      nextProducerSequence: meta.integer("next_producer_sequence"),
    };
  }

  /** Deletes a stream with its batches; nothing happens where there is none. */
  async delete(path: string): Promise<void> {
    const call = this.#client.write("DELETE", CONVERSATIONS, { query: { path } });
    await rejecting("delete", path, absent("conversation_not_found", call));
    this.#subscriptions.deleted(path);
  }

  /** Unlike the stores that come with Flue, it also hears of what other processes append. */
  subscribe(path: string, listener: () => void): () => void {
    return this.#subscriptions.subscribe(path, listener);
  }

  async putFoldCheckpoint(path: string, checkpoint: ConversationFoldCheckpoint): Promise<void> {
    const body = JSON.stringify({
      offset: checkpoint.offset,
      incarnation: checkpoint.incarnation,
      format_version: checkpoint.formatVersion,
      data: checkpoint.data,
    });
    await rejecting("put_checkpoint", path, this.#client.write("PUT", CHECKPOINT, { query: { path }, body }));
  }

  async getFoldCheckpoint(path: string, options?: { atOrBefore?: string }): Promise<ConversationFoldCheckpoint | null> {
    const bound = options?.atOrBefore;
    const query = { path, at_or_before: bound === undefined ? undefined : canonical(path, bound) };
    const call = absent("conversation_checkpoint_not_found", this.#client.read(CHECKPOINT, query));
    const checkpoint = await rejecting("get_checkpoint", path, call);
    if (checkpoint === null) return null;
    return {
      offset: checkpoint.text("offset"),
      incarnation: checkpoint.text("incarnation"),
      formatVersion: checkpoint.integer("format_version"),
      data: checkpoint.text("data"),
    };
  }
}

/** The body of an append. The records are put in as the text that they already are. */
function appendBody(input: Append, records: string): string {
  const members = JSON.stringify({
    path: input.path,
    producer_id: input.producerId,
    producer_epoch: input.producerEpoch,
    incarnation: input.incarnation,
    producer_sequence: input.producerSequence,
    submission: input.submission && {
      submission_id: input.submission.submissionId,
      attempt_id: input.submission.attemptId,
    },
  });
  return `${members.slice(0, -1)},"records":${records}}`;
}

/** An offset as the service writes it. Throws a plain Error for text that is none, before anything is sent. */
function canonical(path: string, offset: string): string {
  const sequence = parseOffset(offset);
  if (!Number.isSafeInteger(sequence)) throw failure("read", path, `No stream has an offset like "${offset}".`);
  return formatOffset(sequence);
}

async function rejecting<Result>(operation: string, path: string, call: Promise<Result>): Promise<Result> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof CairnError && REJECTED.has(error.status)) throw failure(operation, path, error.message);
    throw error;
  }
}

async function absent(code: string, call: Promise<Answer>): Promise<Answer | null> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof CairnError && error.status === 404 && error.code === code) return null;
    throw error;
  }
}

function failure(operation: string, path: string, reason: string): ConversationStreamStoreError {
  return new ConversationStreamStoreError({ operation, path, reason });
}
