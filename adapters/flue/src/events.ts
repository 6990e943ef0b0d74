/** An id is short. A line of data may be 36 MiB, and nobody here reads more of it than that it came. */
const LINE_KEPT = 2_048;

/**
 * The ids of the server-sent events of a stream, each when its event is complete; empty where the stream has given none.
 * What the events hold is not kept. Lines end in LF or CRLF.
 */
export async function* eventIds(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let id = "";
  let hasData = false;
  for await (const line of lines(body)) {
    if (line === "") {
      if (hasData) yield id;
      hasData = false;
    }
    if (line.startsWith("id:")) id = line.slice("id:".length).trimStart();
    if (line.startsWith("data:")) hasData = true;
  }
}

async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let line = "";
  for await (const bytes of body) {
    const pieces = decoder.decode(bytes, { stream: true }).split("\n");
    const rest = pieces.pop() ?? "";
    for (const piece of pieces) {
      yield kept(line, piece).replace(/\r$/, "");
      line = "";
    }
    line = kept(line, rest);
  }
}

function kept(line: string, piece: string): string {
  return line + piece.slice(0, LINE_KEPT - line.length);
}
