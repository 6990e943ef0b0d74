import { afterEach, describe, expect, it } from "vitest";

import { AGENT, directInput, dispatchInput, INSTANCE, running } from "./input.ts";
import { Tenants } from "./service.ts";

const SESSION = `agent-session:${JSON.stringify([AGENT, INSTANCE, "default", "default"])}`;
const tenants = new Tenants();
afterEach(() => tenants.close());

const connect = async () => (await tenants.create()).adapter().connect();

// What Flue's runtime stands on and its suites do not ask.
describe("beside the suites", () => {
  it("names what is to be aborted each time that it is asked", async () => {
    const stores = await connect();
    await running(stores);
    expect(await stores.submissionStore.requestSessionAbort(SESSION)).toEqual(["dispatch-1"]);
    expect(await stores.submissionStore.requestSessionAbort(SESSION)).toEqual(["dispatch-1"]);
  });

  it("has no joins of a submission that is not there", async () => {
    const { submissionStore } = await connect();
    const host = { submissionId: "nobody", attemptId: "attempt-1" };
    expect(await submissionStore.listJoinedSubmissions("nobody")).toEqual([]);
    expect(await submissionStore.claimJoinableSubmissions(host, AGENT)).toEqual([]);
    expect(await submissionStore.completeSubmission(host)).toBe(false);
    expect(await submissionStore.markSubmissionCanonicalReady("nobody")).toBeNull();
    expect(await submissionStore.renewLeases("owner-1", ["nobody"])).toBeUndefined();
  });

  it.each([
    ["none", ""],
    ["a megabyte", "x".repeat(1024 * 1024)],
  ])("keeps an error text of %s", async (_label, text) => {
    const stores = await connect();
    const attempt = await running(stores);
    expect(await stores.submissionStore.failSubmission(attempt, new Error(text))).toBe(true);
    expect((await stores.submissionStore.getSubmission("dispatch-1"))?.error).toBe(text);
  });

  it.each([
    [{ message: "as the record says" }, undefined, "as the record says"],
    [{ message: "as the record says" }, "as the caller says", "as the caller says"],
    [{}, undefined, "The submission failed."],
    [undefined, undefined, "The submission failed."],
  ])("settles with the error of %j and %j", async (error, errorMessage, expected) => {
    const stores = await connect();
    const attempt = await running(stores);
    const record = {
      v: 1,
      id: "record-1",
      type: "submission_settled",
      conversationId: "conversation-1",
      harness: "default",
      session: "default",
      timestamp: "2026-06-22T00:00:00.000Z",
      submissionId: "dispatch-1",
      attemptId: "attempt-1",
      outcome: "failed",
      ...(error === undefined ? {} : { error }),
    } as const;
    const { submissionStore } = stores;
    await submissionStore.reserveSubmissionSettlement(attempt, { recordId: record.id, record });
    const options = errorMessage === undefined ? {} : { errorMessage };
    expect(await submissionStore.finalizeSubmissionSettlement(attempt, record.id, options)).toBe(true);
    expect((await submissionStore.getSubmission("dispatch-1"))?.error).toBe(expected);
  });

  it.each(["latest", "summary", "..", "x".repeat(400)])("serves an instance that is called %s", async (id) => {
    const { submissionStore } = await connect();
    const admitted = await submissionStore.admitDirect(directInput({ id }));
    expect(admitted.sessionKey).toBe(`agent-session:${JSON.stringify([AGENT, id, "default", "default"])}`);
    expect(await submissionStore.listUnreadySubmissions()).toEqual([admitted]);
  });

  it("admits the same submission twice at once, and one of two others", async () => {
    const { submissionStore } = await connect();
    const [one, two] = await Promise.all([
      submissionStore.admitDispatch(dispatchInput()),
      submissionStore.admitDispatch(dispatchInput()),
    ]);
    expect(one).toEqual(two);
    const others = await Promise.all(
      ["a", "b"].map((body) =>
        submissionStore.admitDispatch(
          dispatchInput({ submissionId: "dispatch-2", message: { kind: "signal", type: "test.event", body } }),
        ),
      ),
    );
    expect(others.map((admission) => admission.kind).sort()).toEqual(["conflict", "submission"]);
  });

  it("gives a submission to one of many that claim it", async () => {
    const { submissionStore } = await connect();
    await submissionStore.admitDispatch(dispatchInput());
    await submissionStore.markSubmissionCanonicalReady("dispatch-1");
    const claims = Array.from({ length: 8 }, (_, index) =>
      submissionStore.claimSubmission({
        submissionId: "dispatch-1",
        attemptId: `attempt-${index}`,
        ownerId: `owner-${index}`,
        leaseExpiresAt: Date.now() + 30_000,
      }),
    );
    const claimed = (await Promise.all(claims)).filter((submission) => submission !== null);
    expect(claimed).toHaveLength(1);
    expect(await submissionStore.listRunningSubmissions()).toEqual(claimed);
  });
});
