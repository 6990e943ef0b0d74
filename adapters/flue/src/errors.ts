/** What the service refused, as it said it (`application/problem+json`). */
export class CairnError extends Error {
  /** The status of the answer, for example 409. */
  readonly status: number;
  /** The machine-readable reason, for example `stale_attempt`. */
  readonly code: string;
  /** Everything else that the problem holds: `current_status`, `attempt_id`, `request_id` … */
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(status: number, code: string, detail: string, facts: Readonly<Record<string, unknown>>) {
    super(`${code} (${status}): ${detail}`);
    this.name = "CairnError";
    this.status = status;
    this.code = code;
    this.facts = facts;
  }
}

/** The problem that an answer other than 2xx holds; an answer of a proxy, which holds none, is named by its status. */
export function problemOf(status: number, text: string): CairnError {
  let facts: Record<string, unknown> = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null) facts = parsed as Record<string, unknown>;
  } catch {
    // Not JSON, so it does not come from the service.
  }
  const code = typeof facts.code === "string" ? facts.code : "unexpected_answer";
  const detail = typeof facts.detail === "string" ? facts.detail : text.slice(0, 200);
  return new CairnError(status, code, detail, facts);
}
