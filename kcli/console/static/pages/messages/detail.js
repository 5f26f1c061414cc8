// One record: its place, key, value and headers, in any format.
import { fill, h } from "../../parts/dom.js";
import { path } from "../../parts/api.js";
import { copy, openDialog } from "../../parts/dialog.js";
import { bytes, number, time } from "../../parts/format.js";
import { icon } from "../../parts/icons.js";
import { plainTable } from "../../parts/table.js";
import { deleteDialog, resendDialog } from "./actions.js";
import { fieldNote, longField, shortField } from "./fields.js";

const FORMATS = [["auto", "Detect"], ["json", "JSON"], ["text", "Text"], ["hex", "Hex"], ["schema", "By schema id"]];

export function detailDialog(context, topic, row, { keyFormat, valueFormat }) {
  const api = path`/topics/${topic}/messages/record`;
  const content = h("div", { class: "form", "aria-live": "polite" }, h("div", { class: "loading" }, "Loading …"));
  const formats = { key: keyFormat, value: valueFormat };
  let record = null;

  const load = async () => {
    try {
      const query = { partition: row.partition, offset: row.offset, key_format: formats.key, value_format: formats.value };
      record = await context.api.get(api, query, context.signal);
      draw();
    } catch (error) {
      if (error.name !== "AbortError") fill(content, h("p", { class: "problem", role: "alert" }, error.message));
    }
  };
  const draw = () => fill(
    content,
    h(
      "dl", { class: "facts" },
      h("dt", null, "Partition, offset"), h("dd", null, `${number(record.partition)}, ${number(record.offset)}`),
      h("dt", null, "Time"), h("dd", null, `${time(record.timestamp)} (${record.timestamp_type === "LogAppendTime" ? "set by the broker" : "set by the producer"})`),
      h("dt", null, "Size"), h("dd", null, bytes(record.size)),
    ),
    part("key", "Key"), part("value", "Value"), headers(record), traceLink(),
  );
  const address = context.href(["messages", topic, row.partition, row.offset]);
  const link = h(
    "p", { class: "row" },
    h("a", { href: address, class: "mono" }, `${topic}/${row.partition}/${row.offset}`),
    h("button", { class: "plain", onclick: () => copy(new URL(address, location.href).href) }, icon("copy"), "Copy the link"),
  );
  const traceLink = () => record.trace_id && h(
    "p", null,
    h("a", { href: context.href(["trace", record.trace_id], { topic, partition: row.partition, offset: row.offset }), onclick: () => dialog.close() }, "Show the trace of this record"),
  );
  const schemaLink = ({ schema_id: id }) => id !== undefined && h(
    "a", { href: context.href(["schemas"], { id }), onclick: () => dialog.close() }, `Schema ${id}`,
  );
  const part = (name, title) => {
    const field = record[name];
    const id = `detail-${name}-format`;
    const select = h("select", { id, onchange: () => { formats[name] = select.value; load(); } }, FORMATS.map(([each, text]) => h("option", { value: each }, text)));
    select.value = formats[name];
    const raw = context.api.address(path`/topics/${topic}/messages/raw`, { partition: record.partition, offset: record.offset, part: name });
    return h(
      "section", { class: "form", "aria-label": title },
      h(
        "div", { class: "row record-head" }, h("h3", null, title), h("span", { class: "muted" }, fieldNote(field)), schemaLink(field), h("span", { class: "space" }),
        h("label", { class: "hidden-text", for: id }, `Format of the ${name}`), select,
        field.text ? h("button", { class: "plain icon", "aria-label": `Copy the ${name}`, title: "Copy", onclick: () => copy(field.text) }, icon("copy")) : null,
        field.size > 0 ? h("a", { class: "button plain icon", href: raw, download: "", "aria-label": `Download the bytes of the ${name}`, title: "Download the bytes" }, icon("download")) : null,
      ),
      longField(field, `Content of the ${name}`),
    );
  };
  const buttons = context.isReadOnly ? [] : [
    h("button", { onclick: () => { dialog.close(); deleteDialog(context, topic, { partition: row.partition, before: row.offset + 1 }); } }, icon("trash"), "Delete up to here"),
    h("button", { onclick: () => { dialog.close(); resendDialog(context, topic, row); } }, "Send again"),
  ];
  const dialog = openDialog(`Record ${row.partition}:${row.offset}`, [link, content], buttons, { wide: true });
  load();
}

function headers(record) {
  if (record.headers_count === 0) return h("p", { class: "muted" }, "No headers.");
  const more = record.headers_count - record.headers.length;
  return h(
    "section", { class: "form", "aria-label": "Headers" }, h("h3", null, `Headers (${number(record.headers_count)})`),
    plainTable("Names and values of the headers", [
      { title: "Name", cell: (each) => h("span", { class: "mono" }, each.key) },
      { title: "Value", cell: (each) => shortField(each.value) },
    ], record.headers),
    more > 0 ? h("p", { class: "muted" }, `${number(more)} further headers are in the download.`) : null,
  );
}
