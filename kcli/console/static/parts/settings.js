// The settings of a broker or a topic: values, defaults, sources, and the dialog that changes one.
import { h } from "./dom.js";
import { actionDialog } from "./dialog.js";
import { form } from "./form.js";
import { icon } from "./icons.js";
import { dataTable } from "./table.js";

/** settingsTable(context, {api: "/topics/orders/configs", target: "the topic orders"}) */
export function settingsTable(context, { api, target }) {
  const changed = h("input", { type: "checkbox", id: "only-changed", onchange: () => table.setParameters({ changed: changed.checked ? 1 : "" }) });
  const canEdit = (row) => !context.isReadOnly && !row.is_read_only;
  const table = dataTable(context, {
    label: "Settings",
    placeholder: "Search name, value or source",
    filters: [h("label", { class: "row", for: "only-changed" }, changed, "Only changed")],
    refreshSeconds: 60,
    columns: [
      { name: "name", title: "Name", cell: (row) => h("span", { class: "mono", title: row.name }, row.name) },
      { name: "changed", title: "Value", cell: value },
      { name: "default", title: "Default", sort: false, low: true, cell: (row) => (row.is_changed ? h("span", { class: "mono muted", title: row.default }, row.default ?? "–") : null) },
      { name: "source", title: "Source", low: true, cell: (row) => h("span", { class: `badge ${row.is_changed ? "accent" : ""}` }, sourceName(row.source)) },
      { name: "edit", title: "", label: "Edit", sort: false, cell: (row) => (canEdit(row) ? h("button", { class: "plain icon", "aria-label": `Edit ${row.name}`, onclick: () => edit(context, api, target, row, table) }, icon("edit")) : null) },
    ],
    load: (query) => context.api.get(api, query, context.signal),
  });
  return table.element;
}

function edit(context, api, target, row, table) {
  const fields = form([
    {
      name: "value", label: row.name, type: row.is_sensitive ? "password" : "text", autocomplete: row.is_sensitive ? "new-password" : "off",
      value: row.is_sensitive ? "" : (row.value ?? ""), hint: row.is_sensitive ? "The cluster does not show the present value." : null,
    },
    row.is_changed ? { name: "reset", label: `Return to the default${row.default === null ? "" : `: ${row.default === "" ? "empty" : row.default}`}`, type: "checkbox" } : null,
  ]);
  actionDialog(context, {
    title: `Change a setting of ${target}`,
    path: api,
    verb: "Change",
    fields: { ...fields, values: () => ({ settings: { [row.name]: fields.values().reset ? null : fields.values().value } }) },
    done: () => table.reload(true),
  });
}

function value(row) {
  if (row.is_sensitive) return h("span", { class: "muted" }, "hidden");
  if (row.value === null || row.value === "") return h("span", { class: "muted" }, "empty");
  return h("span", { class: "mono", title: row.value }, row.value);
}

/** DYNAMIC_BROKER_CONFIG becomes "dynamic broker". */
const sourceName = (source) => source.replace(/_CONFIG$/, "").replaceAll("_", " ").toLowerCase();
