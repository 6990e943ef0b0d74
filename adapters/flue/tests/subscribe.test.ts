import { afterEach, expect, it, vi } from "vitest";

import { IDENTITY, PATH, userRecord } from "./input.ts";
import { Tenants } from "./service.ts";

const WAIT_MS = 20_000;
const tenants = new Tenants();
afterEach(() => tenants.close());

/** Two adapters of one tenant, each at a process of the service of its own, and a producer's claim of the second. */
async function readerAndWriter() {
  const tenant = await tenants.create();
  const reader = (await tenant.adapter({ process: 0 }).connect()).conversationStreamStore;
  const writer = (await tenant.adapter({ process: 1 }).connect()).conversationStreamStore;
  let sequence = 0;
  await writer.createStream(PATH, IDENTITY);
  const claim = await writer.acquireProducer(PATH, "producer-1");
  const append = async () => {
    const records = [userRecord(`record-${sequence}`, "Hello")];
    return writer.append({ path: PATH, ...claim, producerSequence: sequence++, records });
  };
  return { reader, writer, append };
}

it("tells a listener of what another process appends", async () => {
  const { reader, append } = await readerAndWriter();
  const listener = vi.fn();
  reader.subscribe(PATH, listener);
  // It is told once when the connection stands, and from then on for each batch.
  await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(1), WAIT_MS);
  const { offset } = await append();
  await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(2), WAIT_MS);
  expect((await reader.read(PATH)).nextOffset).toBe(offset);
});

it("tells a listener at once of what its own process appends, and once", async () => {
  const { writer, append } = await readerAndWriter();
  const listener = vi.fn();
  writer.subscribe(PATH, listener);
  await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(1), WAIT_MS);
  await append();
  expect(listener).toHaveBeenCalledTimes(2);
});

it("goes on when a listener throws, and ends when it is unsubscribed", async () => {
  const { reader, append } = await readerAndWriter();
  const ended = vi.fn();
  const listener = vi.fn();
  reader.subscribe(PATH, () => {
    throw new Error("a listener's own");
  });
  const end = reader.subscribe(PATH, ended);
  reader.subscribe(PATH, listener);
  await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(1), WAIT_MS);
  end();
  end();
  await append();
  await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(2), WAIT_MS);
  expect(ended).toHaveBeenCalledTimes(1);
});

it("hears of a conversation that is not there yet", async () => {
  const tenant = await tenants.create();
  const reader = (await tenant.adapter({ process: 0 }).connect()).conversationStreamStore;
  const writer = (await tenant.adapter({ process: 1 }).connect()).conversationStreamStore;
  const listener = vi.fn();
  reader.subscribe(PATH, listener);
  await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(1), WAIT_MS);
  await writer.createStream(PATH, IDENTITY);
  const claim = await writer.acquireProducer(PATH, "producer-1");
  await writer.append({ path: PATH, ...claim, producerSequence: 0, records: [userRecord("record-1", "Hello")] });
  await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(2), WAIT_MS);
});

it("tells a listener once more when its connection was lost", async () => {
  const tenant = await tenants.create();
  const lost = new AbortController();
  const fetchOnce: typeof fetch = (input, init) => {
    const isLost = String(input).includes("/events") && !lost.signal.aborted;
    const signal = isLost && init?.signal ? AbortSignal.any([init.signal, lost.signal]) : init?.signal;
    return fetch(input, { ...init, ...(signal ? { signal } : {}) });
  };
  const store = (await tenant.adapter({ fetch: fetchOnce }).connect()).conversationStreamStore;
  await store.createStream(PATH, IDENTITY);
  const listener = vi.fn();
  store.subscribe(PATH, listener);
  await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(1), WAIT_MS);
  lost.abort();
  await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(2), WAIT_MS);
});
