import { randomUUID } from "node:crypto";

import { type CairnAdapter, cairn } from "../src/index.ts";

/** Two processes of one service; `make flue` starts them. */
export const URLS = required("CAIRN_TEST_URLS").split(",");
const ADMIN_KEY = required("CAIRN_TEST_ADMIN_KEY");

/** Adapters of one tenant, which is made for them; what they opened is closed by `close`. */
export class Tenant {
  readonly #id: string;
  readonly #adapters: CairnAdapter[] = [];

  private constructor(id: string) {
    this.#id = id;
  }

  static async create(): Promise<Tenant> {
    const tenant = new Tenant(`flue-${randomUUID()}`);
    const made = await tenant.request("PUT", `/v1/tenants/${tenant.#id}`, {});
    if (made.status !== 201) throw new Error(`No tenant could be made: ${made.status} ${await made.text()}`);
    return tenant;
  }

  /** An adapter of its own, as another process of the application would have one. */
  adapter(options: { fetch?: typeof fetch; process?: number; retryForMs?: number } = {}): CairnAdapter {
    const { process = 0, ...rest } = options;
    const made = cairn({ url: URLS[process], apiKey: ADMIN_KEY, tenant: this.#id, ...rest });
    this.#adapters.push(made);
    return made;
  }

  /** A request around the adapter. */
  request(method: string, path: string, body?: unknown): Promise<Response> {
    const headers = {
      authorization: `Bearer ${ADMIN_KEY}`,
      "content-type": "application/json",
      ...(path.startsWith("/v1/tenants/") ? {} : { "x-tenant-id": this.#id }),
    };
    return fetch(URLS[0] + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  }

  close(): void {
    for (const adapter of this.#adapters) adapter.close();
  }
}

/** Keeps the tenants of a test, to close them after it. */
export class Tenants {
  #open: Tenant[] = [];

  async create(): Promise<Tenant> {
    const tenant = await Tenant.create();
    this.#open.push(tenant);
    return tenant;
  }

  close(): void {
    for (const tenant of this.#open) tenant.close();
    this.#open = [];
  }
}

function required(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run these tests with "make flue" in the root of the project.`);
  return value;
}
