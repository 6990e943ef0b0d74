import { createAttachmentRef } from "@flue/runtime/adapter";
import { expect, it } from "vitest";

import { CairnError, cairn } from "../src/index.ts";
import { IDENTITY, PATH, running } from "./input.ts";
import { Tenant, URLS } from "./service.ts";

it("works with a tenant's own key, and the scopes that the README names", async () => {
  const tenant = await Tenant.create();
  const made = await tenant.request("POST", "/v1/api-keys", { name: "flue", scopes: ["*:read", "*:write"] });
  const { key } = (await made.json()) as { key: string };
  const adapter = cairn({ url: `${URLS[0]}/`, apiKey: key });
  await adapter.migrate();
  const stores = await adapter.connect();
  await running(stores);
  await stores.conversationStreamStore.createStream(PATH, IDENTITY);
  const bytes = Uint8Array.from([1]);
  const attachment = await createAttachmentRef({ id: "a", mimeType: "text/plain", bytes });
  await stores.attachmentStore.put({ streamPath: PATH, attachment, bytes, conversationId: "c" });
  adapter.close();
});

it("fails at boot with a key that is refused", async () => {
  const refused = cairn({ url: URLS[0], apiKey: "cairn_nobody" }).migrate();
  await expect(refused).rejects.toBeInstanceOf(CairnError);
  await expect(refused).rejects.toMatchObject({ status: 401, code: "unauthenticated" });
});
