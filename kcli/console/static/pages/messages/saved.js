// Filters that a person keeps under names. They stay in this browser, for each cluster.
import { fill, h } from "../../parts/dom.js";
import { openDialog } from "../../parts/dialog.js";
import { form } from "../../parts/form.js";
import { icon } from "../../parts/icons.js";
import { plainTable } from "../../parts/table.js";
import { toast } from "../../parts/toast.js";

const NAME_MAX = 100;

const place = (cluster) => `kcli-filters-${cluster}`;

function load(cluster) {
  try {
    return new Map(Object.entries(JSON.parse(localStorage.getItem(place(cluster)) ?? "{}")));
  } catch {
    return new Map();
  }
}

function store(cluster, filters) {
  try {
    localStorage.setItem(place(cluster), JSON.stringify(Object.fromEntries(filters)));
  } catch {
    toast("The browser does not allow storing here. The address of the page keeps the filter.", "bad");
  }
}

/** Shows the kept filters. `filter` is the present one, and `use(text)` takes a kept one. */
export function savedDialog(cluster, filter, use) {
  const list = h("div", { "aria-live": "polite" });
  const change = (work) => {
    const filters = load(cluster);
    work(filters);
    store(cluster, filters);
    draw();
  };
  const draw = () => fill(list, plainTable("Saved filters", [
    { title: "Name", cell: ([name]) => h("button", { class: "link", onclick: () => { dialog.close(); use(load(cluster).get(name)); } }, name) },
    { title: "Filter", cell: ([, text]) => h("span", { class: "mono" }, text) },
    { title: "", cell: ([name]) => h("button", { class: "plain icon", "aria-label": `Remove the filter ${name}`, onclick: () => change((filters) => filters.delete(name)) }, icon("trash")) },
  ], [...load(cluster)], "No filter is saved for this cluster in this browser."));
  const fields = form([{ name: "name", label: "Name", required: true, maxlength: NAME_MAX, hint: `For the filter ${filter}` }]);
  const save = h("button", { class: "primary", onclick: () => fields.element.requestSubmit() }, "Save the filter");
  fields.element.addEventListener("submit", () => {
    if (fields.check()) change((filters) => filters.set(fields.values().name.trim(), filter));
  });
  const dialog = openDialog("Saved filters", [list, filter ? [fields.element, h("div", null, save)] : h("p", { class: "muted" }, "Write a filter first to save it under a name.")], [], { wide: true });
  draw();
}
