import type { AttachmentRef } from "@flue/runtime/adapter";

/** The reference of the attachment that came with these headers; the service percent-encodes what is text. */
export function referenceOf(headers: Headers): AttachmentRef {
  const filename = headers.get("attachment-filename");
  return {
    id: textIn(headers, "attachment-id"),
    mimeType: textIn(headers, "attachment-mime-type"),
    size: Number(textIn(headers, "attachment-size")),
    digest: textIn(headers, "attachment-digest"),
    ...(filename === null ? {} : { filename: decodeURIComponent(filename) }),
  };
}

function textIn(headers: Headers, name: string): string {
  const value = headers.get(name);
  if (value === null) throw new TypeError(`Cairn was expected to answer the header "${name}".`);
  return decodeURIComponent(value);
}
