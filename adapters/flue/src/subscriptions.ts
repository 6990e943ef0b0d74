import { setTimeout as pause } from "node:timers/promises";

import { parseOffset, StreamListenerRegistry } from "@flue/runtime/adapter";

import type { Client } from "./client.ts";
import { CairnError } from "./errors.ts";
import { eventIds } from "./events.ts";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** A long poll subscribes for each of its turns: the connection stays this long after the last listener has gone. */
const LINGER_MS = 10_000;

/**
 * Tells listeners that a conversation has grown, whichever process wrote to it: at once for what this process appends,
 * and through one connection for each watched path for what others append.
 *
 * A notification says "read now" and no more. There may be one too many, never one too few: listeners are told each
 * time that a connection stands, for what came while none did.
 */
export class Subscriptions {
  readonly #client: Client;
  readonly #listeners = new StreamListenerRegistry();
  readonly #watches = new Map<string, Watch>();
  #closed = false;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Calls the listener when the conversation has grown, until the answered function is called. */
  subscribe(path: string, listener: () => void): () => void {
    // Wrapped, so that a listener that subscribes twice is two subscriptions.
    const end = this.#listeners.subscribe(path, () => listener());
    if (this.#closed) return end;
    const watch = this.#watches.get(path) ?? this.#watch(path);
    watch.listeners += 1;
    clearTimeout(watch.lingering);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      end();
      watch.listeners -= 1;
      if (watch.listeners === 0) watch.lingering = setTimeout(() => this.#drop(path, watch), LINGER_MS).unref();
    };
  }

  /** Tells the listeners of this process of a batch that it has appended itself. */
  appended(path: string, offset: string, incarnation: string): void {
    const watch = this.#watches.get(path);
    if (watch !== undefined) watch.told = { sequence: parseOffset(offset), incarnation };
    this.#listeners.notify(path);
  }

  /** Tells the listeners of this process that the conversation has gone. */
  deleted(path: string): void {
    this.#listeners.notify(path);
  }

  /** Ends every connection; later subscriptions hear of this process alone. */
  close(): void {
    this.#closed = true;
    for (const [path, watch] of this.#watches) this.#drop(path, watch);
  }

  #watch(path: string): Watch {
    const watch: Watch = { listeners: 0, told: undefined, stop: new AbortController(), lingering: undefined };
    this.#watches.set(path, watch);
    void this.#follow(path, watch);
    return watch;
  }

  #drop(path: string, watch: Watch): void {
    clearTimeout(watch.lingering);
    watch.stop.abort();
    if (this.#watches.get(path) === watch) this.#watches.delete(path);
  }

  async #follow(path: string, watch: Watch): Promise<void> {
    const { signal } = watch.stop;
    let lastEvent = "";
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        const query = { path, offset: lastEvent === "" ? "now" : undefined };
        const headers: Record<string, string> = lastEvent === "" ? {} : { "last-event-id": lastEvent };
        const body = await this.#client.open("/v1/conversations/events", query, headers, signal);
        failures = 0;
        this.#listeners.notify(path);
        for await (const id of eventIds(body)) {
          lastEvent = id;
          if (!isTold(watch, id)) this.#listeners.notify(path);
        }
      } catch (error) {
        // Refused, so the id is of no use: the conversation is another one now. Begin at its head.
        if (error instanceof CairnError) lastEvent = "";
      }
      const wait = Math.min(FIRST_PAUSE_MS * 2 ** failures, LONGEST_PAUSE_MS);
      await pause(wait, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }
}

interface Watch {
  listeners: number;
  /** The last batch that this process appended: its listeners were told to read up to it. */
  told: { readonly sequence: number; readonly incarnation: string } | undefined;
  readonly stop: AbortController;
  lingering: NodeJS.Timeout | undefined;
}

/** Whether the batch of an event id, `<offset>@<incarnation>`, is one that the listeners were told of. */
function isTold(watch: Watch, id: string): boolean {
  const [, sequence, incarnation] = /^\d+_(\d+)@(.*)$/.exec(id) ?? [];
  return watch.told !== undefined && incarnation === watch.told.incarnation && Number(sequence) <= watch.told.sequence;
}
