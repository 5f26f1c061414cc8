// The ACLs, and the users with SCRAM credentials.
import { h } from "../parts/dom.js";
import { number } from "../parts/format.js";
import { actionDialog } from "../parts/dialog.js";
import { form } from "../parts/form.js";
import { icon } from "../parts/icons.js";
import { pageHead, tabs } from "../parts/page.js";
import { dataTable, plainTable } from "../parts/table.js";

export default {
  name: "security",
  title: "ACLs, users",
  group: "Security",
  icon: "security",
  key: "a",
  path: "security/*",
  async render(root, context) {
    const [tab = ""] = context.params.rest;
    const isUsers = tab === "users";
    const add = isUsers
      ? h("button", { class: "primary", onclick: () => setPassword(context, table) }, icon("plus"), "Set a password")
      : h("button", { class: "primary", onclick: () => addAcls(context, table) }, icon("plus"), "Add ACLs");
    const explanation = noAuthorizer();
    const table = isUsers ? usersTable(context) : aclsTable(context, (hasAuthorizer) => {
      explanation.hidden = hasAuthorizer;
      table.element.hidden = add.hidden = !hasAuthorizer;
    });
    root.append(
      pageHead({ title: "ACLs and users", actions: context.isReadOnly ? [] : [add] }),
      tabs(isUsers ? "users" : "", [["", "ACLs", context.href(["security"])], ["users", "Users", context.href(["security", "users"])]]),
      explanation, table.element,
    );
  },
};

/** What a cluster without an authorizer means, and how to get one. */
function noAuthorizer() {
  return h(
    "section", { class: "card", hidden: true, "aria-label": "No authorizer" },
    h(
      "div", { class: "card-body form" },
      h("h2", null, "This cluster has no authorizer"),
      h("p", null, "So there are no ACLs, and each client that can connect may do everything. To use ACLs, set these keys in the file of each broker and each controller, and start the nodes again:"),
      h("pre", { class: "record-value", tabindex: "0" }, "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:admin"),
      h("p", { class: "muted" }, "Name the principals of the brokers and of the administrators in super.users first. Without an ACL, all other clients are then refused."),
    ),
  );
}

const RESOURCES = [
  { value: "TOPIC", label: "Topic" },
  { value: "GROUP", label: "Group" },
  { value: "CLUSTER", label: "Cluster" },
  { value: "TRANSACTIONAL_ID", label: "Transactional id" },
  { value: "DELEGATION_TOKEN", label: "Delegation token" },
  { value: "USER", label: "User" },
];

const OPERATIONS = [
  "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS",
  "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
];

const PERMISSIONS = [{ value: "ALLOW", label: "Allow" }, { value: "DENY", label: "Deny" }];

/** The name of a number of Kafka as people read it: DESCRIBE_CONFIGS is Describe configs. */
const spelt = (name) => name.charAt(0) + name.slice(1).toLowerCase().replaceAll("_", " ");

function aclsTable(context, report) {
  const table = dataTable(context, {
    label: "ACLs",
    placeholder: "Search principal, resource or operation",
    refreshSeconds: 60,
    columns: [
      { name: "principal", title: "Principal", cell: (row) => h("span", { class: "mono", title: row.principal }, row.principal) },
      { name: "operation", title: "Permission", cell: (row) => [h("span", { class: `badge ${row.permission === "DENY" ? "bad" : "good"}` }, spelt(row.permission)), " ", spelt(row.operation)] },
      { name: "resource_type", title: "Resource", low: true, cell: (row) => spelt(row.resource_type) },
      { name: "name", title: "Name", cell: (row) => h("span", { class: "mono", title: row.name }, row.pattern === "PREFIXED" ? [row.name, h("span", { class: "muted" }, " and longer")] : row.name) },
      { name: "host", title: "Host", low: true, cell: (row) => (row.host === "*" ? "any" : row.host) },
      {
        name: "remove", title: "", label: "Remove", sort: false,
        cell: (row) => (context.isReadOnly ? null : h("button", { class: "plain icon", "aria-label": `Remove the ACL of ${row.principal} on ${row.name}`, onclick: () => removeAcl(context, row, table) }, icon("trash"))),
      },
    ],
    load: async (query) => {
      const found = await context.api.get("/acls", query, context.signal);
      report(found.has_authorizer);
      return found;
    },
    empty: "There are no ACLs.",
  });
  return table;
}

function addAcls(context, table) {
  const operations = h("select", { multiple: true, size: 6 }, OPERATIONS.map((name) => h("option", { value: name }, spelt(name))));
  const fields = form([
    { name: "principal", label: "Principal", required: true, placeholder: "User:alice", pattern: "[^:]+:.+", hint: "The type and the name, such as User:alice. User:* is everybody." },
    { name: "permission", label: "Permission", options: PERMISSIONS },
    { name: "use", label: "For", options: [{ value: "producer", label: "A producer of a topic" }, { value: "consumer", label: "A consumer of a topic" }, { value: "", label: "Operations that I choose" }], value: "producer" },
    { name: "resource_type", label: "Resource", options: RESOURCES },
    { name: "name", label: "Name", placeholder: "orders", hint: "The topic or other resource. * is every resource. The cluster has no name." },
    { name: "group", label: "Group of the consumer", placeholder: "billing" },
    { name: "pattern", label: "Pattern", options: [{ value: "LITERAL", label: "This name" }, { value: "PREFIXED", label: "All names that begin with it" }] },
    { name: "operations", label: "Operations", element: operations, read: () => [...operations.selectedOptions].map((each) => each.value) },
    { name: "host", label: "From address", value: "*", hint: "* is every address." },
  ]);
  const use = fields.input("use");
  const fit = () => {
    const own = use.value === "";
    for (const [name, isShown] of [["resource_type", own], ["operations", own], ["group", use.value === "consumer"]]) fields.input(name).closest(".field").hidden = !isShown;
  };
  use.addEventListener("change", fit);
  fit();
  actionDialog(context, {
    title: "Add ACLs",
    path: "/acls",
    verb: "Add",
    fields,
    wide: true,
    show: (outcome) => plainTable("ACLs", [
      { title: "Permission", cell: (row) => spelt(row.permission) },
      { title: "Operation", cell: (row) => spelt(row.operation) },
      { title: "Resource", cell: (row) => `${spelt(row.resource_type)} ${row.name}` },
    ], outcome.details ?? []),
    done: () => table.reload(true),
  });
}

function removeAcl(context, row, table) {
  actionDialog(context, {
    title: "Remove an ACL",
    text: `${row.principal}: ${spelt(row.permission).toLowerCase()} ${spelt(row.operation)} on ${spelt(row.resource_type).toLowerCase()} ${row.name}`,
    path: "/acls/remove",
    body: () => row,
    verb: "Remove",
    danger: true,
    done: () => table.reload(true),
  });
}

function usersTable(context) {
  const table = dataTable(context, {
    label: "Users",
    placeholder: "Search user or mechanism",
    refreshSeconds: 60,
    columns: [
      { name: "name", title: "User", cell: (row) => h("span", { class: "mono", title: row.name }, row.name) },
      { name: "mechanisms", title: "Credentials", sort: false, cell: (row) => credentials(context, row, table) },
      { name: "acls", title: "ACLs", number: true, cell: (row) => (row.acls === null ? "–" : h("a", { href: context.href(["security"], { search: `User:${row.name}` }) }, number(row.acls))) },
      {
        name: "password", title: "", label: "Set a password", sort: false,
        cell: (row) => (context.isReadOnly ? null : h("button", { class: "plain icon", "aria-label": `Set a password of ${row.name}`, onclick: () => setPassword(context, table, row.name) }, icon("edit"))),
      },
    ],
    load: (query) => context.api.get("/users", query, context.signal),
    empty: "No user has a SCRAM credential.",
  });
  return table;
}

function credentials(context, row, table) {
  if (row.error) return h("span", { class: "problem" }, row.error);
  return h("div", { class: "row" }, Object.entries(row.mechanisms).map(([mechanism, iterations]) => [
    h("span", { class: "badge", title: `${iterations} iterations` }, mechanism),
    context.isReadOnly || mechanism === "?" ? null : h("button", { class: "plain icon", "aria-label": `Remove ${mechanism} of ${row.name}`, onclick: () => removeCredential(context, row.name, mechanism, table) }, icon("trash")),
  ]));
}

function setPassword(context, table, user = "") {
  const fields = form([
    { name: "name", label: "User", required: true, value: user },
    { name: "mechanism", label: "Mechanism", options: ["SCRAM-SHA-512", "SCRAM-SHA-256"] },
    { name: "password", label: "Password", type: "password", required: true, autocomplete: "new-password", hint: "It is salted and hashed here. The cluster never sees it." },
    { name: "iterations", label: "Iterations", type: "number", min: 4096, max: 16384, value: 8192 },
  ]);
  actionDialog(context, { title: "Set a password", path: "/users", verb: "Set", fields, done: () => table.reload(true) });
}

function removeCredential(context, name, mechanism, table) {
  actionDialog(context, {
    title: `Remove a credential of ${name}`,
    path: "/users/remove",
    body: () => ({ name, mechanism }),
    verb: "Remove",
    danger: true,
    confirm: name,
    done: () => table.reload(true),
  });
}
