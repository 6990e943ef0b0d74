import type { AttachmentStore, GetAttachmentInput, PutAttachmentInput, StoredAttachment } from "@flue/runtime/adapter";
import {
  AttachmentConflictError,
  AttachmentIntegrityError,
  copyAttachmentBytes,
  verifyAttachmentBytes,
} from "@flue/runtime/adapter";

import type { Client } from "./client.ts";
import { CairnError } from "./errors.ts";
import { referenceOf } from "./reference.ts";

const ATTACHMENTS = "/v1/attachments";

/** The bytes of attachments, and the deletion of an instance's, which Flue had before 2.0. */
export class CairnAttachmentStore implements AttachmentStore {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  async put(input: PutAttachmentInput): Promise<void> {
    // The caller may change its array while we wait.
    const body = new Uint8Array(copyAttachmentBytes(input.bytes));
    const { attachment, streamPath } = input;
    await verifyAttachmentBytes(attachment, body);
    const query = {
      path: streamPath,
      id: attachment.id,
      conversation_id: input.conversationId,
      mime_type: attachment.mimeType,
      size: String(attachment.size),
      digest: attachment.digest,
      filename: attachment.filename,
    };
    try {
      await this.#client.send("PUT", ATTACHMENTS, { query, body });
    } catch (error) {
      throw inFlue(error, streamPath, attachment.id);
    }
  }

  async get(input: GetAttachmentInput): Promise<StoredAttachment | null> {
    const query = { path: input.streamPath, id: input.attachmentId, conversation_id: input.conversationId };
    try {
      const { headers, bytes } = await this.#client.send("GET", ATTACHMENTS, { query });
      const attachment = referenceOf(headers);
      await verifyAttachmentBytes(attachment, bytes);
      return { attachment, bytes };
    } catch (error) {
      if (error instanceof CairnError && error.code === "attachment_not_found") return null;
      throw inFlue(error, input.streamPath, input.attachmentId);
    }
  }

  /** Deletes every attachment of one stream. */
  async deleteForInstance(streamPath: string): Promise<void> {
    await this.#client.write("DELETE", ATTACHMENTS, { query: { path: streamPath } });
  }
}

/** A refusal as the error that Flue knows it by; anything else as it is. */
function inFlue(error: unknown, path: string, attachmentId: string): unknown {
  if (!(error instanceof CairnError)) return error;
  if (error.code === "attachment_conflict") return new AttachmentConflictError({ path, attachmentId });
  if (error.code === "attachment_integrity") {
    return new AttachmentIntegrityError({ attachmentId, reason: error.facts.reason === "size" ? "size" : "digest" });
  }
  return error;
}
