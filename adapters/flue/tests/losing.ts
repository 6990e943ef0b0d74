/** How many answers were lost, and how many of them to a call that had been granted. */
export interface Losses {
  lost: number;
  granted: number;
}

/**
 * A `fetch` between which and the service every first answer to a call that changes something is lost: the service does
 * the work and commits it, and the caller sees its connection fail. A call is known by its Idempotency-Key.
 */
export function losingAnswers(losses: Losses = { lost: 0, granted: 0 }): typeof fetch {
  const answered = new Set<string>();
  return async (input, init) => {
    const response = await fetch(input, init);
    if ((init?.method ?? "GET") === "GET") return response;
    const key = new Headers(init?.headers).get("idempotency-key");
    if (key === null) throw new Error("A call that changes something carries no Idempotency-Key.");
    if (answered.has(key)) return response;
    answered.add(key);
    losses.lost += 1;
    if (response.ok) losses.granted += 1;
    await response.arrayBuffer();
    throw new TypeError("fetch failed", { cause: new Error("The answer was lost.") });
  };
}
