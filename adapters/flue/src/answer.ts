/** Reads the members of an object that the service answered, and says which one is not what was promised. */
export class Answer {
  readonly #members: Readonly<Record<string, unknown>>;

  constructor(value: unknown) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw unexpected("an object", value);
    this.#members = value as Record<string, unknown>;
  }

  /** A member as it is; `undefined` when it is absent. */
  value(name: string): unknown {
    return this.#members[name];
  }

  /** A member that is text. */
  text(name: string): string {
    const value = this.#members[name];
    if (typeof value !== "string") throw unexpected(`text in "${name}"`, value);
    return value;
  }

  /** A member that is text, or `undefined` when it is null or absent. */
  optionalText(name: string): string | undefined {
    return this.#members[name] == null ? undefined : this.text(name);
  }

  /** A member that is an integer. */
  integer(name: string): number {
    const value = this.#members[name];
    if (typeof value !== "number" || !Number.isSafeInteger(value)) throw unexpected(`an integer in "${name}"`, value);
    return value;
  }

  /** A member that is true or false. */
  flag(name: string): boolean {
    const value = this.#members[name];
    if (typeof value !== "boolean") throw unexpected(`true or false in "${name}"`, value);
    return value;
  }

  /** A member that is an instant, in epoch milliseconds; `undefined` when it is null or absent. */
  instant(name: string): number | undefined {
    const text = this.optionalText(name);
    if (text === undefined) return undefined;
    const milliseconds = Date.parse(text);
    if (Number.isNaN(milliseconds)) throw unexpected(`an instant in "${name}"`, text);
    return milliseconds;
  }

  /** A member that is an object. */
  object(name: string): Answer {
    return new Answer(this.#members[name]);
  }

  /** A member that is an array of objects. */
  list(name: string): Answer[] {
    return this.#array(name).map((item) => new Answer(item));
  }

  /** A member that is an array of texts. */
  texts(name: string): string[] {
    return this.#array(name).map((item) => {
      if (typeof item !== "string") throw unexpected(`texts in "${name}"`, item);
      return item;
    });
  }

  #array(name: string): unknown[] {
    const value = this.#members[name];
    if (!Array.isArray(value)) throw unexpected(`an array in "${name}"`, value);
    return value;
  }
}

const LAST_INSTANT = Date.parse("9999-12-31T23:59:59.999Z");

/** Epoch milliseconds as an RFC 3339 instant. What lies after the year 9999 becomes its last millisecond. */
export function toInstant(milliseconds: number): string {
  return new Date(Math.min(milliseconds, LAST_INSTANT)).toISOString();
}

function unexpected(wanted: string, found: unknown): TypeError {
  return new TypeError(`Cairn was expected to answer ${wanted}, and answered ${typeof found}.`);
}
