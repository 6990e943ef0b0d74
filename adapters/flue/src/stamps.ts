import { FLUE_FORMAT_VERSION, PersistedFormatVersionError } from "@flue/runtime/adapter";

import type { Client } from "./client.ts";
import { CairnError } from "./errors.ts";

/** The format that Flue stamped as schema 8 is the one that it stamps as format 1 since. */
const ADOPTED = { schema_version: ["8"] };

/**
 * Stamps a new store with Flue's format, or finds it stamped so. Throws PersistedFormatVersionError, and changes
 * nothing, when the store has another format, or holds data and no stamp.
 */
export async function openFormat(client: Client): Promise<void> {
  const body = JSON.stringify({ name: "format_version", value: String(FLUE_FORMAT_VERSION), adopt: ADOPTED });
  try {
    await client.write("POST", "/v1/format-stamps/open", { body });
  } catch (error) {
    const storedVersion = error instanceof CairnError ? foundIn(error) : undefined;
    if (storedVersion === undefined) throw error;
    throw new PersistedFormatVersionError({ storedVersion, supportedVersion: FLUE_FORMAT_VERSION });
  }
}

function foundIn(error: CairnError): string | undefined {
  if (error.code === "unversioned_store") return "unversioned";
  if (error.code !== "format_unsupported") return undefined;
  return typeof error.facts.stored_value === "string" ? error.facts.stored_value : "unknown";
}
