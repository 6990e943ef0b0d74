import {
  defineAttachmentStoreContractTests,
  defineConversationStreamStoreContractTests,
  defineStoreContractTests,
  type FormatVersionTestHandle,
} from "@flue/runtime/test-utils";

import { describe } from "vitest";

import type { CairnStores } from "../src/index.ts";
import { Tenants } from "./service.ts";

/**
 * Registers Flue's three suites, as they are published. Each test has a tenant of its own, so several run at a time; and
 * nothing to clean up, for an adapter that nobody subscribed with holds nothing open.
 */
export function defineFluesSuites(label: string, makeFetch: () => typeof fetch): void {
  const tenants = new Tenants();
  const connect = async (): Promise<CairnStores> => (await tenants.create()).adapter({ fetch: makeFetch() }).connect();

  describe.concurrent(label, () => {
    defineStoreContractTests(`${label}: submissions`, {
      create: async () => (await connect()).submissionStore,
      formatVersion: { open: () => openStamps(tenants, makeFetch()) },
    });
    defineConversationStreamStoreContractTests(`${label}: conversations`, {
      create: async () => {
        const { conversationStreamStore, submissionStore } = await connect();
        return { stream: conversationStreamStore, submissionStore };
      },
    });
    defineAttachmentStoreContractTests(`${label}: attachments`, {
      create: async () => (await connect()).attachmentStore,
    });
  });
}

async function openStamps(tenants: Tenants, fetch: typeof globalThis.fetch): Promise<FormatVersionTestHandle> {
  const tenant = await tenants.create();
  const adapter = tenant.adapter({ fetch });
  const pathOf = (name: string) => `/v1/format-stamps/${encodeURIComponent(name)}`;
  return {
    migrate: () => adapter.migrate(),
    async readStamp(name) {
      const answer = await tenant.request("GET", pathOf(name));
      if (answer.status === 404) return undefined;
      return ((await answer.json()) as { value: string }).value;
    },
    async writeStamp(name, value) {
      await expectOk(tenant.request("PUT", pathOf(name), { value }));
    },
    async deleteStamp(name) {
      await expectOk(tenant.request("DELETE", pathOf(name)));
    },
  };
}

async function expectOk(call: Promise<Response>): Promise<void> {
  const answer = await call;
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
}
