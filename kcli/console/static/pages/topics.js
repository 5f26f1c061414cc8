// The topics: the list, and the form that creates one. One topic is in topic.js.
import { h } from "../parts/dom.js";
import { bytes, number } from "../parts/format.js";
import { actionDialog } from "../parts/dialog.js";
import { form } from "../parts/form.js";
import { icon } from "../parts/icons.js";
import { pageHead } from "../parts/page.js";
import { dataTable } from "../parts/table.js";
import { topicPage } from "./topic.js";

export default {
  name: "topics",
  title: "Topics",
  group: "Data",
  icon: "topics",
  key: "t",
  path: "topics/*",
  async render(root, context) {
    const [topic, tab] = context.params.rest;
    if (topic === undefined) listPage(root, context);
    else await topicPage(root, context, topic, tab ?? "");
  },
};

function listPage(root, context) {
  const filter = (name, text) => {
    const box = h("input", { type: "checkbox", id: `filter-${name}`, onchange: () => update() });
    return { name, box, element: h("label", { class: "row", for: box.id }, box, text) };
  };
  const filters = [filter("internal", "Internal"), filter("problems", "Only with problems")];
  for (const each of filters) each.box.checked = context.query[each.name] === "1";
  const chosen = () => Object.fromEntries(filters.map((each) => [each.name, each.box.checked ? 1 : ""]));
  const update = () => {
    context.setQuery(chosen());
    table.setParameters(chosen());
  };
  const table = dataTable(context, {
    label: "Topics",
    placeholder: "Search topics",
    parameters: chosen(),
    filters: filters.map((each) => each.element),
    actions: context.isReadOnly ? [] : [h("button", { class: "primary", onclick: () => createTopic(context, table) }, icon("plus"), "New topic")],
    columns: [
      { name: "name", title: "Topic", cell: (row) => [h("a", { href: context.href(["topics", row.name]), title: row.name }, row.name), row.is_internal ? [" ", h("span", { class: "badge" }, "internal")] : null] },
      { name: "partitions", title: "Partitions", number: true, cell: (row) => number(row.partitions) },
      { name: "replication_factor", title: "Replicas", number: true, low: true, cell: (row) => number(row.replication_factor) },
      { name: "under_replicated", title: "State", cell: state },
      { name: "size_bytes", title: "Size", number: true, cell: (row) => bytes(row.size_bytes) },
      { name: "messages", title: "", label: "Messages", sort: false, low: true, cell: (row) => (context.hasPage("messages") ? h("a", { href: context.href(["messages", row.name]) }, "Messages") : null) },
    ],
    load: (query) => context.api.get("/topics", query, context.signal),
    empty: "The cluster has no topics that you may see.",
  });
  root.append(pageHead({ title: "Topics" }), table.element);
}

function state(row) {
  if (row.error) return h("span", { class: "badge bad" }, row.error.replaceAll("_", " ").toLowerCase());
  if (row.offline > 0) return h("span", { class: "badge bad" }, `${number(row.offline)} offline`);
  if (row.under_replicated > 0) return h("span", { class: "badge warn" }, `${number(row.under_replicated)} under-replicated`);
  return h("span", { class: "badge good" }, "in sync");
}

/** "a=1\nb=2" becomes {a: "1", b: "2"}. */
function settingsOf(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#"));
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}

function createTopic(context, table) {
  const fields = form([
    { name: "name", label: "Name", required: true, maxlength: 249, pattern: "[a-zA-Z0-9._\\-]+", hint: "Letters, digits, dots, underscores and hyphens." },
    { name: "partitions", label: "Partitions", type: "number", min: 1, max: 100000, placeholder: "the cluster's default" },
    { name: "replication_factor", label: "Replicas of each partition", type: "number", min: 1, max: 1000, placeholder: "the cluster's default" },
    { name: "configs", label: "Settings", type: "textarea", rows: 3, placeholder: "retention.ms=86400000", hint: "One name=value in each line." },
  ]);
  actionDialog(context, {
    title: "New topic",
    path: "/topics",
    verb: "Create",
    fields: { ...fields, values: () => ({ ...fields.values(), configs: settingsOf(fields.values().configs) }) },
    done: () => table.reload(true),
  });
}
