import { defineFluesSuites } from "./suites.ts";

defineFluesSuites("Cairn", () => fetch);
