import type {
  AgentDispatchAdmission,
  AgentSubmissionInput,
  AgentSubmissionStore,
  DispatchInput,
  SubmissionAttemptRef,
  SubmissionClaimRef,
  SubmissionDurability,
  SubmissionSettledRecord,
  SubmissionSettlementObligation,
} from "@flue/runtime/adapter";
import {
  createDispatchAgentSubmissionInput,
  DURABILITY_DEFAULT_MAX_ATTEMPTS,
  DURABILITY_DEFAULT_TIMEOUT_MS,
  LEASE_DURATION_MS,
} from "@flue/runtime/adapter";

import { type Answer, toInstant } from "./answer.ts";
import { type Client, segment } from "./client.ts";
import { CairnError } from "./errors.ts";
import {
  admissionBody,
  type CairnAdmission,
  type CairnSubmission,
  errorText,
  obligationOf,
  receiptOf,
  settledFromReceipt,
  submissionOf,
} from "./submission.ts";

const SUBMISSIONS = "/v1/submissions";
const MARKERS = "/v1/attempt-markers";
/** The most; where inputs are large, the service ends a page at 16 MiB of them. */
const PAGE = "1000";
const RENEWALS_PER_CALL = 500;

/** That an attempt was started. */
export interface AttemptMarker {
  readonly submissionId: string;
  readonly attemptId: string;
  /** Epoch milliseconds; a repeated insert keeps the first. */
  readonly createdAt: number;
}

/** A lease as Flue gives it: who holds it, and until when, in epoch milliseconds of Flue's clock. */
interface Lease {
  readonly ownerId: string;
  readonly leaseExpiresAt: number;
}

/**
 * The ledger of submissions as Flue had it before 2.0: with recovery requests, attempt markers and receipts. Each method
 * is one call, and what it promises is said in Flue's own type. A precondition that does not hold is null, false or an
 * empty list, as there.
 */
export class DispatchLedger {
  protected readonly client: Client;

  constructor(client: Client) {
    this.client = client;
  }

  async getSubmission(submissionId: string): Promise<CairnSubmission | null> {
    return submissionOrNull(await refusable(this.client.read(pathOf(submissionId))));
  }

  async hasUnsettledSubmissions(): Promise<boolean> {
    return (await this.client.read(`${SUBMISSIONS}/unsettled`)).flag("unsettled");
  }

  listRunnableSubmissions(): Promise<CairnSubmission[]> {
    return this.#view("runnable");
  }

  listUnreadySubmissions(): Promise<CairnSubmission[]> {
    return this.#view("unready");
  }

  listRunningSubmissions(): Promise<CairnSubmission[]> {
    return this.#view("running");
  }

  /** Judged by the clock of the service's database, so a clock that runs ahead here takes nobody's work away. */
  async listExpiredSubmissions(): Promise<CairnSubmission[]> {
    return (await this.#view("expired")).filter((submission) => submission.leaseExpiresAt > 0);
  }

  async listPendingSubmissionSettlements(): Promise<SubmissionSettlementObligation[]> {
    return (await this.client.list("/v1/settlements", { limit: PAGE })).map(obligationOf);
  }

  admitDispatch(input: DispatchInput): Promise<CairnAdmission> {
    return this.#admit(createDispatchAgentSubmissionInput(input));
  }

  async admitDirect(input: AgentSubmissionInput): Promise<CairnSubmission> {
    const admission = await this.#admit(input);
    if (admission.kind === "conflict") {
      throw new Error("[flue] Internal direct admission returned an unexpected result.");
    }
    return admission.kind === "submission" ? admission.submission : settledFromReceipt(input, admission.receipt);
  }

  markSubmissionCanonicalReady(submissionId: string): Promise<CairnSubmission | null> {
    return this.#changed(submissionId, "ready?include=input", {});
  }

  claimSubmission(claim: SubmissionClaimRef): Promise<CairnSubmission | null> {
    return this.#changed(claim.submissionId, "claim", { attempt_id: claim.attemptId, ...leaseBody(claim) });
  }

  replaceSubmissionAttempt(
    attempt: SubmissionAttemptRef,
    nextAttemptId: string,
    lease?: Lease,
  ): Promise<CairnSubmission | null> {
    return this.#changed(attempt.submissionId, "replace-attempt", {
      attempt_id: attempt.attemptId,
      next_attempt_id: nextAttemptId,
      ...(lease === undefined ? {} : leaseBody(lease)),
    });
  }

  markSubmissionInputApplied(attempt: SubmissionAttemptRef, durability?: SubmissionDurability): Promise<boolean> {
    return this.#done(attempt, "input-applied", {
      max_attempts: durability?.maxAttempts ?? DURABILITY_DEFAULT_MAX_ATTEMPTS,
      timeout_at: toInstant(durability?.timeoutAt ?? Date.now() + DURABILITY_DEFAULT_TIMEOUT_MS),
    });
  }

  requestSubmissionRecovery(attempt: SubmissionAttemptRef): Promise<boolean> {
    return this.#done(attempt, "recovery-request");
  }

  async requestSessionAbort(sessionKey: string): Promise<string[]> {
    const body = JSON.stringify({ session_key: sessionKey });
    return (await this.client.write("POST", `${SUBMISSIONS}/abort-session`, { body })).texts("submission_ids");
  }

  requeueSubmission(attempt: SubmissionAttemptRef): Promise<boolean> {
    return this.#done(attempt, "requeue");
  }

  async reserveSubmissionSettlement(
    attempt: SubmissionAttemptRef,
    settlement: { recordId: string; record: SubmissionSettledRecord },
  ): Promise<SubmissionSettlementObligation | null> {
    if (settlement.record.id !== settlement.recordId) return null;
    const answer = await this.#transition(attempt.submissionId, "settlement/reserve", {
      attempt_id: attempt.attemptId,
      record_id: settlement.recordId,
      record: settlement.record,
    });
    return answer === null ? null : obligationOf(answer);
  }

  finalizeSubmissionSettlement(
    attempt: SubmissionAttemptRef,
    recordId: string,
    options?: { errorMessage?: string },
  ): Promise<boolean> {
    return this.#done(attempt, "settlement/finalize", {
      record_id: recordId,
      ...(options?.errorMessage === undefined ? {} : { error_message: errorText(options.errorMessage) }),
    });
  }

  completeSubmission(attempt: SubmissionAttemptRef): Promise<boolean> {
    return this.#done(attempt, "complete");
  }

  failSubmission(attempt: SubmissionAttemptRef, error: unknown): Promise<boolean> {
    return this.#done(attempt, "fail", { error: errorText(error) });
  }

  async settleQueuedSubmission(submissionId: string, outcome: "failed" | "aborted", error: unknown): Promise<boolean> {
    return (await this.#transition(submissionId, "settle-queued", { outcome, error: errorText(error) })) !== null;
  }

  async claimJoinableSubmissions(host: SubmissionAttemptRef, agentName: string): Promise<CairnSubmission[]> {
    const body = { attempt_id: host.attemptId, agent: agentName };
    const answer = await this.#transition(host.submissionId, "joins/claim", body);
    return answer === null ? [] : answer.list("items").map(submissionOf);
  }

  finalizeJoinedSubmission(host: SubmissionAttemptRef, submissionId: string): Promise<boolean> {
    return this.#done(host, `joins/${segment(submissionId)}/finalize`);
  }

  revertJoiningSubmission(host: SubmissionAttemptRef, submissionId: string): Promise<boolean> {
    return this.#done(host, `joins/${segment(submissionId)}/revert`);
  }

  async listJoinedSubmissions(hostSubmissionId: string): Promise<CairnSubmission[]> {
    const joins = this.client.list(`${pathOf(hostSubmissionId)}/joins`, { include: "input", limit: PAGE });
    return (await refusable(joins))?.map(submissionOf) ?? [];
  }

  async renewLeases(ownerId: string, submissionIds: string[]): Promise<void> {
    for (let first = 0; first < submissionIds.length; first += RENEWALS_PER_CALL) {
      const body = JSON.stringify({
        owner_id: ownerId,
        submission_ids: submissionIds.slice(first, first + RENEWALS_PER_CALL),
        lease_seconds: LEASE_DURATION_MS / 1000,
        client_time: toInstant(Date.now()),
      });
      await this.client.write("POST", `${SUBMISSIONS}/renew-leases`, { body });
    }
  }

  async insertAttemptMarker(attempt: SubmissionAttemptRef): Promise<void> {
    await this.client.write("PUT", MARKERS, { query: markerQuery(attempt) });
  }

  async deleteAttemptMarker(attempt: SubmissionAttemptRef): Promise<void> {
    await refusable(this.client.write("DELETE", MARKERS, { query: markerQuery(attempt) }));
  }

  async listAttemptMarkers(): Promise<AttemptMarker[]> {
    return (await this.client.list(MARKERS, { limit: PAGE })).map((marker) => ({
      submissionId: marker.text("submission_id"),
      attemptId: marker.text("attempt_id"),
      createdAt: marker.instant("created_at") ?? 0,
    }));
  }

  async #view(view: string): Promise<CairnSubmission[]> {
    return (await this.client.list(SUBMISSIONS, { view, include: "input", limit: PAGE })).map(submissionOf);
  }

  async #admit(input: AgentSubmissionInput): Promise<CairnAdmission> {
    let answer: Answer;
    try {
      answer = await this.client.write("POST", SUBMISSIONS, { body: admissionBody(input) });
    } catch (error) {
      if (error instanceof CairnError && error.code === "submission_conflict") return { kind: "conflict" };
      throw error;
    }
    if (answer.text("kind") === "retained_receipt") {
      return { kind: "retained_receipt", receipt: receiptOf(answer.object("receipt")) };
    }
    return { kind: "submission", submission: submissionOf(answer.object("submission")) };
  }

  async #changed(submissionId: string, action: string, body: object): Promise<CairnSubmission | null> {
    return submissionOrNull(await this.#transition(submissionId, action, body));
  }

  async #done(attempt: SubmissionAttemptRef, action: string, body: object = {}): Promise<boolean> {
    const answer = await this.#transition(attempt.submissionId, action, { attempt_id: attempt.attemptId, ...body });
    return answer !== null;
  }

  #transition(submissionId: string, action: string, body: object): Promise<Answer | null> {
    return refusable(this.client.write("POST", `${pathOf(submissionId)}/${action}`, { body: JSON.stringify(body) }));
  }
}

/** The ledger as Flue 2 has it: a receipt is the settled submission that it stands for. */
export class SubmissionStore extends DispatchLedger implements AgentSubmissionStore {
  override async admitDispatch(input: DispatchInput): Promise<AgentDispatchAdmission> {
    const admission = await super.admitDispatch(input);
    if (admission.kind !== "retained_receipt") return admission;
    const submission = settledFromReceipt(createDispatchAgentSubmissionInput(input), admission.receipt);
    return { kind: "submission", submission };
  }
}

/** What a call answers, or null when its precondition does not hold: the row is in another state, or is not there. */
async function refusable<Result>(call: Promise<Result>): Promise<Result | null> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof CairnError && isRefusal(error)) return null;
    throw error;
  }
}

function isRefusal(error: CairnError): boolean {
  if (error.status === 409) return !error.code.startsWith("idempotency_");
  return error.status === 404 && error.code === "submission_not_found";
}

function submissionOrNull(answer: Answer | null): CairnSubmission | null {
  return answer === null ? null : submissionOf(answer);
}

function leaseBody(lease: Lease): object {
  return {
    owner_id: lease.ownerId,
    lease_expires_at: toInstant(lease.leaseExpiresAt),
    client_time: toInstant(Date.now()),
  };
}

function markerQuery(attempt: SubmissionAttemptRef): Record<string, string> {
  return { submission_id: attempt.submissionId, attempt_id: attempt.attemptId };
}

function pathOf(submissionId: string): string {
  return `${SUBMISSIONS}/${segment(submissionId)}`;
}
