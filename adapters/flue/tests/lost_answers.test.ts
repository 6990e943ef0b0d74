import { afterAll, expect } from "vitest";

import { type Losses, losingAnswers } from "./losing.ts";
import { defineFluesSuites } from "./suites.ts";

const losses: Losses = { lost: 0, granted: 0 };

defineFluesSuites("Cairn, where every first answer is lost", () => losingAnswers(losses));

// Without this the suites would pass if nothing were lost.
afterAll(() => expect(losses.granted).toBeGreaterThan(300));
