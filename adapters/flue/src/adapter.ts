import type { PersistenceAdapter, PersistenceStores } from "@flue/runtime/adapter";

import { CairnAttachmentStore } from "./attachments.ts";
import { Client } from "./client.ts";
import { ConversationStore } from "./conversations.ts";
import type { CairnOptions } from "./options.ts";
import { openFormat } from "./stamps.ts";
import { DispatchLedger, SubmissionStore } from "./submissions.ts";
import { Subscriptions } from "./subscriptions.ts";

/** The stores of Flue 2, and beside them what Flue had before: one ledger behind `executionStore`, and deletions. */
export interface CairnStores extends PersistenceStores {
  readonly submissionStore: SubmissionStore;
  readonly executionStore: { readonly submissions: DispatchLedger };
  readonly conversationStreamStore: ConversationStore;
  readonly attachmentStore: CairnAttachmentStore;
}

/** The adapter that {@link cairn} makes; all its methods may be called again. */
export interface CairnAdapter extends PersistenceAdapter {
  connect(): Promise<CairnStores>;
  migrate(): Promise<void>;
  close(): void;
}

/**
 * Keeps Flue's durable state in a Cairn service. Default-export it from `db.ts`:
 *
 * ```ts
 * export default cairn({ url: process.env.CAIRN_URL, apiKey: process.env.CAIRN_API_KEY });
 * ```
 *
 * Throws at once when an option is missing. An unreachable service, a refused key, or a store of another format fails
 * at boot, in `migrate()` or `connect()`.
 */
export function cairn(options: CairnOptions): CairnAdapter {
  const client = new Client(options);
  const subscriptions = new Subscriptions(client);
  return {
    migrate: () => openFormat(client),
    async connect() {
      await openFormat(client);
      return {
        submissionStore: new SubmissionStore(client),
        executionStore: { submissions: new DispatchLedger(client) },
        conversationStreamStore: new ConversationStore(client, subscriptions),
        attachmentStore: new CairnAttachmentStore(client),
      };
    },
    close: () => subscriptions.close(),
  };
}
