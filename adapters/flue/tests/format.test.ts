import { PersistedFormatVersionError } from "@flue/runtime/adapter";
import { afterEach, expect, it } from "vitest";

import { dispatchInput } from "./input.ts";
import { type Tenant, Tenants } from "./service.ts";

const tenants = new Tenants();
afterEach(() => tenants.close());

const STAMP = "/v1/format-stamps/format_version";

/** What both ways to open the store say of it. */
async function refusalOf(tenant: Tenant): Promise<unknown> {
  const adapter = tenant.adapter();
  const [migrated, connected] = await Promise.all([said(adapter.migrate()), said(adapter.connect())]);
  expect(connected).toEqual(migrated);
  return migrated;
}

async function said(opening: Promise<unknown>): Promise<unknown> {
  try {
    return await opening;
  } catch (error) {
    expect(error).toBeInstanceOf(PersistedFormatVersionError);
    return error instanceof PersistedFormatVersionError ? error.meta : error;
  }
}

it("opens a store again that it has stamped", async () => {
  const tenant = await tenants.create();
  await tenant.adapter().migrate();
  await tenant.adapter().migrate();
  await tenant.adapter().connect();
});

it("refuses a store of a newer format, and names both", async () => {
  const tenant = await tenants.create();
  await tenant.request("PUT", STAMP, { value: "2" });
  expect(await refusalOf(tenant)).toEqual({ storedVersion: "2", supportedVersion: 1 });
});

it("refuses a store that holds data and no stamp", async () => {
  const tenant = await tenants.create();
  await (await tenant.adapter().connect()).submissionStore.admitDispatch(dispatchInput());
  await tenant.request("DELETE", STAMP);
  expect(await refusalOf(tenant)).toEqual({ storedVersion: "unversioned", supportedVersion: 1 });
});
