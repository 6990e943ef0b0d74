import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

import { Answer } from "./answer.ts";
import { CairnError, problemOf } from "./errors.ts";
import type { CairnOptions } from "./options.ts";

const RETRY_FOR_MS = 30_000;
const REQUEST_TIMEOUT_MS = 60_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;
/** The service is on its way up or down, overloaded, or a proxy could not say what it answered. */
const COME_BACK = new Set([429, 502, 503, 504]);

/** What a call may carry besides its method and path. */
export interface Call {
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** JSON text, or bytes. */
  readonly body?: string | Uint8Array<ArrayBuffer>;
}

/** An answer with a status of 2xx. */
export interface Answered {
  readonly headers: Headers;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Speaks HTTP with one service as one tenant.
 *
 * A call that changes something carries one Idempotency-Key, made when the call begins and kept through its tries.
 * So a call whose answer was lost after it was committed is answered as if it had not been lost. A call is tried again
 * when no answer came, when the service says to come back, and when it is still busy with an earlier try.
 */
export class Client {
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch;
  readonly #retryForMs: number;
  readonly #requestTimeoutMs: number;

  constructor(options: CairnOptions) {
    if (!options.url) throw new Error("cairn() needs the url of the service; is CAIRN_URL set?");
    if (!options.apiKey) throw new Error("cairn() needs an apiKey; is CAIRN_API_KEY set?");
    this.#base = new URL(options.url).href.replace(/\/+$/, "");
    this.#headers = {
      authorization: `Bearer ${options.apiKey}`,
      ...(options.tenant === undefined ? {} : { "x-tenant-id": options.tenant }),
    };
    this.#fetch = options.fetch ?? fetch;
    this.#retryForMs = options.retryForMs ?? RETRY_FOR_MS;
    this.#requestTimeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
  }

  /** The object that a GET answers. Throws {@link CairnError} when it is refused. */
  async read(path: string, query: Call["query"] = {}): Promise<Answer> {
    return objectOf(await this.send("GET", path, { query }));
  }

  /** The items of a list, to its end. */
  async list(path: string, query: Readonly<Record<string, string | undefined>>): Promise<Answer[]> {
    const items: Answer[] = [];
    let cursor: string | undefined;
    do {
      const page: Answer = await this.read(path, { ...query, cursor });
      items.push(...page.list("items"));
      cursor = page.optionalText("next_cursor");
    } while (cursor !== undefined);
    return items;
  }

  /** Changes something and answers the object that came back; empty when nothing did. */
  async write(method: "POST" | "PUT" | "DELETE", path: string, call: Call = {}): Promise<Answer> {
    return objectOf(await this.send(method, path, call));
  }

  /** Sends a call, again where that is safe, and answers what came with a status of 2xx. */
  async send(method: "GET" | "POST" | "PUT" | "DELETE", path: string, call: Call = {}): Promise<Answered> {
    const url = this.#base + path + queryText(call.query ?? {});
    const headers = {
      ...this.#headers,
      ...(method === "GET" ? {} : { "idempotency-key": randomUUID() }),
      ...(call.body === undefined ? {} : { "content-type": contentType(call.body) }),
    };
    const deadline = performance.now() + this.#retryForMs;
    for (let attempt = 0; ; attempt++) {
      let failure: unknown;
      let wait = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
      try {
        const signal = AbortSignal.timeout(this.#requestTimeoutMs);
        const response = await this.#fetch(url, { method, headers, signal, ...(call.body ? { body: call.body } : {}) });
        const bytes = new Uint8Array(await response.arrayBuffer());
        if (response.ok) return { headers: response.headers, bytes };
        const problem = problemOf(response.status, new TextDecoder().decode(bytes));
        if (!COME_BACK.has(response.status) && problem.code !== "idempotency_in_progress") throw problem;
        wait = Math.max(wait, secondsToWait(response.headers) * 1000);
        failure = problem;
      } catch (error) {
        if (error instanceof CairnError) throw error;
        failure = error;
      }
      if (performance.now() + wait > deadline) throw failure;
      await pause(wait);
    }
  }

  /** Opens a stream of server-sent events; it ends when the signal is aborted. Tried once. */
  async open(path: string, query: Call["query"], headers: Record<string, string>, signal: AbortSignal) {
    const url = this.#base + path + queryText(query ?? {});
    const response = await this.#fetch(url, { headers: { ...this.#headers, ...headers }, signal });
    if (!response.ok || response.body === null) throw problemOf(response.status, await response.text());
    return response.body;
  }
}

/** One segment of a path, percent-encoded. Throws URIError for text that is not well-formed. */
export function segment(text: string): string {
  return encodeURIComponent(text);
}

function objectOf(answered: Answered): Answer {
  if (answered.bytes.byteLength === 0) return new Answer({});
  const parsed: unknown = JSON.parse(new TextDecoder().decode(answered.bytes));
  return new Answer(parsed);
}

function queryText(query: Readonly<Record<string, string | undefined>>): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

function contentType(body: string | Uint8Array): string {
  return typeof body === "string" ? "application/json" : "application/octet-stream";
}

function secondsToWait(headers: Headers): number {
  const seconds = Number(headers.get("retry-after"));
  return Number.isFinite(seconds) && seconds > 0 ? seconds : 0;
}
