/** Where a Cairn service is, and how to speak to it. */
export interface CairnOptions {
  /** The address of the service, for example `https://cairn.example`. A path before `/v1` is kept. */
  readonly url: string | undefined;
  /** A key of the tenant that holds this application's state. It needs the scopes `*:read` and `*:write`. */
  readonly apiKey: string | undefined;
  /** The tenant to act for. Only the operator's key needs it: every other key belongs to one tenant. */
  readonly tenant?: string;
  /**
   * How long a call is tried again, in milliseconds, while the service cannot be reached or asks to come back later.
   * The default is 30,000, the length of Flue's own lease. After it the last failure is thrown.
   */
  readonly retryForMs?: number;
  /** How long one try may take, in milliseconds, from the first byte sent to the last byte read. The default is 60,000. */
  readonly requestTimeoutMs?: number;
  /** The `fetch` to use instead of the global one. */
  readonly fetch?: typeof fetch;
}
