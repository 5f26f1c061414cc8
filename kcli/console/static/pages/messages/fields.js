// How a key, a value or a header is shown: null, empty and cut values, their format and size.
import { h } from "../../parts/dom.js";
import { bytes } from "../../parts/format.js";

const COLOURED_MAX = 60000; // characters; each token becomes an element
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|-?\d[\d.eE+-]*/g;

/** A field in one line of a list. */
export function shortField(field) {
  if (field.format === "null") return h("span", { class: "badge" }, "null");
  if (field.format === "empty") return h("span", { class: "badge" }, "empty");
  const schema = field.schema_id === undefined ? null : [h("span", { class: "badge accent" }, `${field.format} #${field.schema_id}`), " "];
  const size = field.cut ? [h("span", { class: "badge" }, bytes(field.size)), " "] : null;
  return h("span", { class: "record-text", title: fieldNote(field) }, schema, size, (field.text ?? "").slice(0, 300));
}

/** The size of a field, and what its text does not show. */
export function fieldNote(field) {
  if (field.size === null) return "null";
  const parts = [field.format, bytes(field.size)];
  if (field.cut) parts.push("only the beginning is shown");
  if (field.valid === false) parts.push("not valid UTF-8: � stands for bytes that are no text");
  if (field.error) parts.push(field.error);
  return parts.join(" · ");
}

/** A whole field. JSON has colours. */
export function longField(field, label) {
  if (field.format === "null") return h("p", { class: "muted" }, "null (no bytes)");
  if (field.format === "empty") return h("p", { class: "muted" }, "empty (0 bytes)");
  const text = field.text ?? "";
  const isJson = ["json", "avro", "protobuf"].includes(field.format) && text.length <= COLOURED_MAX;
  return h("pre", { class: "record-value", tabindex: "0", role: "region", "aria-label": label }, isJson ? coloured(text) : text);
}

function coloured(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    if (found.index > at) parts.push(text.slice(at, found.index));
    const [whole, string, colon, word] = found;
    if (string) parts.push(h("span", { class: colon ? "json-name" : "json-text" }, string), colon ?? "");
    else parts.push(h("span", { class: word ? "json-word" : "json-number" }, whole));
    at = found.index + whole.length;
  }
  parts.push(text.slice(at));
  return parts;
}
