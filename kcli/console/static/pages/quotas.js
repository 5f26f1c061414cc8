// The quotas of users, clients and addresses.
import { h } from "../parts/dom.js";
import { bytes, number } from "../parts/format.js";
import { actionDialog } from "../parts/dialog.js";
import { form } from "../parts/form.js";
import { icon } from "../parts/icons.js";
import { pageHead } from "../parts/page.js";
import { dataTable } from "../parts/table.js";

export default {
  name: "quotas",
  title: "Quotas",
  group: "Security",
  icon: "quotas",
  key: "q",
  path: "quotas",
  async render(root, context) {
    const table = quotaTable(context);
    const add = h("button", { class: "primary", onclick: () => chooseEntity(context, table) }, icon("plus"), "Set a quota");
    root.append(pageHead({ title: "Quotas", actions: context.isReadOnly ? [] : [add] }), table.element);
  },
};

const LIMITS = [
  { name: "producer_byte_rate", title: "Produce", label: "Bytes a second that producers may send", show: (value) => `${bytes(value)}/s` },
  { name: "consumer_byte_rate", title: "Consume", label: "Bytes a second that consumers may receive", show: (value) => `${bytes(value)}/s` },
  { name: "request_percentage", title: "Requests", label: "Percent of the time of a request thread", show: (value) => `${number(value)} %` },
  { name: "controller_mutation_rate", title: "Changes", label: "Partitions a second that may be created and deleted", show: (value) => `${number(value)}/s` },
  { name: "connection_creation_rate", title: "Connections", label: "New connections a second", show: (value) => `${number(value)}/s` },
];
const OF_ADDRESS = "connection_creation_rate";

function quotaTable(context) {
  const table = dataTable(context, {
    label: "Quotas",
    placeholder: "Search user, client id or address",
    refreshSeconds: 60,
    columns: [
      { name: "entity", title: "For", cell: entity },
      ...LIMITS.map(({ name, title, show }) => ({ name, title, number: true, low: name !== "producer_byte_rate" && name !== "consumer_byte_rate", cell: (row) => (row.limits[name] === undefined ? h("span", { class: "muted" }, "–") : show(row.limits[name])) })),
      {
        name: "edit", title: "", label: "Edit", sort: false,
        cell: (row) => (context.isReadOnly ? null : h("button", { class: "plain icon", "aria-label": "Edit this quota", onclick: () => editLimits(context, table, entityOf(row), row.limits) }, icon("edit"))),
      },
    ],
    load: (query) => context.api.get("/quotas", query, context.signal),
    empty: "There are no quotas.",
  });
  return table;
}

const PARTS = [["user", "user", "any other user"], ["client_id", "client id", "any other client id"], ["ip", "address", "any other address"]];

function entity(row) {
  return PARTS.filter(([name]) => row[`has_${name}`]).map(([name, word, other], index) => [
    index > 0 ? ", " : null,
    row[name] === null ? h("em", null, other) : [`${word} `, h("span", { class: "mono", title: row[name] }, row[name])],
  ]);
}

function entityOf(row) {
  const found = {};
  if (row.has_user) found.user = row.user;
  if (row.has_client_id) found["client-id"] = row.client_id;
  if (row.has_ip) found.ip = row.ip;
  return found;
}

function chooseEntity(context, table) {
  const fields = form([
    { name: "kind", label: "For", options: [{ value: "user", label: "A user" }, { value: "client-id", label: "A client id" }, { value: "user client-id", label: "A client id of a user" }, { value: "ip", label: "An address" }] },
    { name: "user", label: "User", hint: "Empty: every user without an own quota." },
    { name: "client-id", label: "Client id", hint: "Empty: every client id without an own quota." },
    { name: "ip", label: "Address", hint: "Empty: every address without an own quota." },
    ...LIMITS.map(({ name, label }) => ({ name, label, type: "number", min: 0, step: "any" })),
  ]);
  const kind = fields.input("kind");
  const kinds = () => kind.value.split(" ");
  const isShown = (name) => (["user", "client-id", "ip"].includes(name) ? kinds().includes(name) : (name === OF_ADDRESS) === kinds().includes("ip"));
  const fit = () => {
    for (const name of ["user", "client-id", "ip", ...LIMITS.map((each) => each.name)]) fields.input(name).closest(".field").hidden = !isShown(name);
  };
  kind.addEventListener("change", fit);
  fit();
  const values = () => {
    const found = fields.values();
    return {
      entity: Object.fromEntries(kinds().map((name) => [name, found[name] === "" ? null : found[name]])),
      limits: Object.fromEntries(LIMITS.filter(({ name }) => isShown(name) && found[name] !== undefined).map(({ name }) => [name, found[name]])),
    };
  };
  actionDialog(context, { title: "Set a quota", path: "/quotas", verb: "Set", fields: { ...fields, values }, done: () => table.reload(true) });
}

function editLimits(context, table, entity, limits) {
  const shown = LIMITS.filter(({ name }) => (name === OF_ADDRESS) === ("ip" in entity));
  const fields = form(shown.map(({ name, label }) => ({ name, label, type: "number", min: 0, step: "any", value: limits[name] ?? "", hint: "Empty: no limit of its own." })));
  const values = () => {
    const found = fields.values();
    const changed = shown.filter(({ name }) => found[name] !== limits[name]);
    return { entity, limits: Object.fromEntries(changed.map(({ name }) => [name, found[name] ?? null])) };
  };
  actionDialog(context, { title: "Change a quota", path: "/quotas", verb: "Change", fields: { ...fields, values }, done: () => table.reload(true) });
}
