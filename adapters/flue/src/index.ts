export { type CairnAdapter, type CairnStores, cairn } from "./adapter.ts";
export { CairnError } from "./errors.ts";
export type { CairnOptions } from "./options.ts";
export type { CairnAdmission, CairnSubmission, DispatchReceipt } from "./submission.ts";
export type { AttemptMarker } from "./submissions.ts";
