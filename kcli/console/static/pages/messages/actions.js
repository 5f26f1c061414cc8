// The dialogs that send and delete records.
import { h } from "../../parts/dom.js";
import { path } from "../../parts/api.js";
import { actionDialog } from "../../parts/dialog.js";
import { number } from "../../parts/format.js";
import { form } from "../../parts/form.js";
import { plainTable } from "../../parts/table.js";

const FORMATS = [{ value: "text", label: "Text" }, { value: "json", label: "JSON (checked)" }, { value: "hex", label: "Hexadecimal bytes" }, { value: "null", label: "null" }];

export function sendDialog(context, topic) {
  const fields = form([
    { name: "keyFormat", label: "Key", options: [{ value: "null", label: "No key (null)" }, ...FORMATS.slice(0, 3)] },
    { name: "key", label: "Text of the key", type: "textarea", rows: 1 },
    { name: "valueFormat", label: "Value", options: [...FORMATS.slice(0, 3), { value: "null", label: "null (a tombstone)" }] },
    { name: "value", label: "Text of the value", type: "textarea", rows: 8 },
    { name: "headers", label: "Headers", type: "textarea", rows: 2, hint: "One in each line, as name: value", placeholder: "source: console" },
    { name: "partition", label: "Partition", type: "number", min: 0, hint: "Without a number, the key chooses the partition." },
  ]);
  hideWithNull(fields, "key");
  hideWithNull(fields, "value");
  actionDialog(context, {
    title: `Send a record to ${topic}`,
    path: path`/topics/${topic}/messages/send`,
    verb: "Send",
    wide: true,
    fields: { ...fields, values: () => sent(fields.values()) },
  });
}

function sent(found) {
  return {
    key: found.keyFormat === "null" ? null : { format: found.keyFormat, text: found.key },
    value: found.valueFormat === "null" ? null : { format: found.valueFormat, text: found.value },
    headers: headersOf(found.headers),
    partition: found.partition ?? null,
  };
}

function headersOf(text) {
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const at = line.indexOf(":");
    return at < 0 ? [line.trim(), null] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
}

/** The text of a key or value is hidden if the format is null. */
function hideWithNull(fields, name) {
  const select = fields.input(`${name}Format`);
  const show = () => { fields.input(name).parentElement.hidden = select.value === "null"; };
  select.addEventListener("change", show);
  show();
}

export function resendDialog(context, topic, row) {
  const edits = ["key", "value"].filter((name) => row[name] && isEditable(row[name]));
  const fields = form([
    { name: "target", label: "To topic", value: topic, required: true },
    { name: "target_partition", label: "Partition", type: "number", min: 0, hint: "Without a number, the key chooses the partition." },
    { name: "keep_timestamp", label: "Keep the timestamp of the record", type: "checkbox" },
    ...edits.map((name) => ({ name, label: `The ${name}`, type: "textarea", rows: name === "key" ? 1 : 8, value: row[name].text ?? "", hint: "Without a change, the bytes of the record are sent as they are." })),
  ]);
  actionDialog(context, {
    title: `Send record ${row.partition}:${row.offset} again`,
    path: path`/topics/${topic}/messages/resend`,
    verb: "Send",
    wide: true,
    text: edits.includes("value") ? null : "The value is sent as it is. It can be edited only if it is a short text.",
    fields: {
      ...fields,
      values() {
        const found = fields.values();
        const body = { partition: row.partition, offset: row.offset, target: found.target, target_partition: found.target_partition ?? null, keep_timestamp: found.keep_timestamp };
        for (const name of edits) if (found[name] !== (row[name].text ?? "")) body[name] = { format: "text", text: found[name] };
        return body;
      },
    },
  });
}

/** Only a text that the list shows whole can be edited. A textarea changes \r\n to \n. */
const isEditable = (field) => ["text", "json", "empty"].includes(field.format) && !field.cut && field.valid !== false && !(field.text ?? "").includes("\r");

/** `place` has a partition, and the offset before which records are deleted. */
export function deleteDialog(context, topic, place = {}) {
  const fields = form([
    { name: "partition", label: "Partition", type: "number", min: 0, required: true, value: String(place.partition ?? 0) },
    { name: "before", label: "Delete the records before offset", type: "number", min: 0, value: place.before === undefined ? "" : String(place.before), hint: "Without a number, all records of the partition." },
  ]);
  actionDialog(context, {
    title: `Delete records of ${topic}`,
    path: path`/topics/${topic}/messages/delete`,
    verb: "Delete",
    danger: true,
    confirm: topic,
    fields: {
      ...fields,
      values() {
        const found = fields.values();
        return { before: { [String(found.partition ?? 0)]: String(found.before ?? -1) } };
      },
    },
    show: (outcome) => plainTable("Partitions", [
      { title: "Partition", number: true, cell: (row) => number(row.partition) },
      { title: "First offset now", number: true, cell: (row) => number(row.start) },
      { title: "First offset then", number: true, cell: (row) => number(row.before) },
      { title: "Records that go", number: true, cell: (row) => h("strong", null, `up to ${number(row.offsets)}`) },
    ], outcome.details),
    done: () => context.reload(),
  });
}
