import type {
  AgentDispatchAdmission,
  AgentSubmission,
  AgentSubmissionInput,
  SubmissionSettledRecord,
  SubmissionSettlementObligation,
} from "@flue/runtime/adapter";
import {
  createSessionStorageKey,
  DURABILITY_DEFAULT_MAX_ATTEMPTS,
  parseAcceptedAt,
  SUBMISSION_HARNESS_NAME,
  SUBMISSION_SESSION_NAME,
} from "@flue/runtime/adapter";

import { type Answer, toInstant } from "./answer.ts";

/** A submission, with the stamp that Flue had before 2.0. Times are epoch milliseconds. */
export interface CairnSubmission extends AgentSubmission {
  /** When the owner first asked for recovery; absent when it did not. */
  readonly recoveryRequestedAt?: number;
}

/** What is left of a settled submission that retention has removed. */
export interface DispatchReceipt {
  readonly submissionId: string;
  /** Epoch milliseconds. */
  readonly acceptedAt: number;
}

/** What an admission came to, with the outcome that Flue had before 2.0. */
export type CairnAdmission =
  | AgentDispatchAdmission
  | { readonly kind: "retained_receipt"; readonly receipt: DispatchReceipt };

const STATUSES = ["queued", "running", "terminalizing", "settled", "joining", "joined"] as const;

/** The body that admits an input. The input travels as the text that `JSON.stringify` gives it. */
export function admissionBody(input: AgentSubmissionInput): string {
  return JSON.stringify({
    id: input.submissionId,
    session_key: sessionKeyOf(input),
    kind: input.kind,
    agent: input.agent,
    instance_id: input.id,
    accepted_at: toInstant(parseAcceptedAt(input.acceptedAt, "admission")),
    // Flue materializes the conversation first, and recovers lapsed work itself.
    ready: false,
    on_lapse: "hold",
    input,
  });
}

/** The submission that the service answered; members that are unset are absent, save `canonicalReadyAt`. */
export function submissionOf(answer: Answer): CairnSubmission {
  const kind = answer.text("kind");
  const status = STATUSES.find((known) => known === answer.text("status"));
  const input = answer.value("input");
  if ((kind !== "dispatch" && kind !== "direct") || status === undefined || input === undefined) {
    throw new TypeError(`Submission "${answer.text("id")}" is not one that Flue has admitted.`);
  }
  return {
    sequence: answer.integer("sequence"),
    submissionId: answer.text("id"),
    sessionKey: answer.text("session_key"),
    kind,
    input: input as AgentSubmissionInput,
    status,
    acceptedAt: answer.instant("accepted_at") ?? 0,
    canonicalReadyAt: answer.instant("canonical_ready_at") ?? null,
    ...present("attemptId", answer.optionalText("attempt_id")),
    ...present("inputAppliedAt", answer.instant("input_applied_at")),
    ...present("abortRequestedAt", answer.instant("abort_requested_at")),
    ...present("recoveryRequestedAt", answer.instant("recovery_requested_at")),
    ...present("startedAt", answer.instant("started_at")),
    ...present("joinedInto", answer.optionalText("joined_into")),
    ...present("error", answer.optionalText("error")),
    ...present("settledAt", answer.instant("settled_at")),
    attemptCount: answer.integer("attempt_count"),
    maxAttempts: answer.integer("max_attempts"),
    timeoutAt: answer.instant("timeout_at") ?? 0,
    ...present("ownerId", answer.optionalText("owner_id")),
    leaseExpiresAt: answer.instant("lease_expires_at") ?? 0,
  };
}

/** The settlement that an attempt has reserved. */
export function obligationOf(answer: Answer): SubmissionSettlementObligation {
  return {
    submissionId: answer.text("submission_id"),
    sessionKey: answer.text("session_key"),
    attemptId: answer.text("attempt_id"),
    recordId: answer.text("record_id"),
    record: answer.value("record") as SubmissionSettledRecord,
  };
}

/** The receipt that the service answered. */
export function receiptOf(answer: Answer): DispatchReceipt {
  return { submissionId: answer.text("submission_id"), acceptedAt: answer.instant("accepted_at") ?? 0 };
}

/**
 * A receipt as the settled submission that it stands for. Flue 2 knows no receipts: it would take the outcome for a
 * conflict, or run the work a second time.
 */
export function settledFromReceipt(input: AgentSubmissionInput, receipt: DispatchReceipt): CairnSubmission {
  return {
    sequence: 0,
    submissionId: receipt.submissionId,
    sessionKey: sessionKeyOf(input),
    kind: input.kind,
    input: { ...input, acceptedAt: toInstant(receipt.acceptedAt) },
    status: "settled",
    acceptedAt: receipt.acceptedAt,
    canonicalReadyAt: receipt.acceptedAt,
    attemptCount: 0,
    maxAttempts: DURABILITY_DEFAULT_MAX_ATTEMPTS,
    timeoutAt: 0,
    leaseExpiresAt: 0,
  };
}

/** What the row keeps of a failure: its message, with U+0000 and lone surrogates, which no column holds, replaced. */
export function errorText(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replaceAll("\0", "\ufffd").toWellFormed();
}

function sessionKeyOf(input: AgentSubmissionInput): string {
  return createSessionStorageKey(input.agent, input.id, SUBMISSION_HARNESS_NAME, SUBMISSION_SESSION_NAME);
}

function present<Name extends string, Value>(name: Name, value: Value | undefined): { [Key in Name]?: Value } {
  return value === undefined ? {} : ({ [name]: value } as { [Key in Name]: Value });
}
