// Kafka Connect: the connectors of all workers that the options name, and one connector with its tasks and actions.
import { h, fill } from "../parts/dom.js";
import { path } from "../parts/api.js";
import { number, plural } from "../parts/format.js";
import { actionDialog } from "../parts/dialog.js";
import { ageMark, isLost } from "../parts/contact.js";
import { aged, every, notice, pageHead, tabs, tiles } from "../parts/page.js";
import { dataTable, plainTable } from "../parts/table.js";
import { configPage, createPage } from "./connect/editor.js";

const REFRESH_SECONDS = 5;
const STATES = ["RUNNING", "FAILED", "PAUSED", "STOPPED", "UNASSIGNED", "RESTARTING"];
const STATE_CLASS = { RUNNING: "good", FAILED: "bad", UNASSIGNED: "warn" };

export default {
  name: "connect",
  title: "Connectors",
  group: "Connect",
  icon: "connect",
  key: "n",
  path: "connect/*",
  async render(root, context) {
    const [worker, name, tab = ""] = context.params.rest;
    if (worker === undefined) await listPage(root, context);
    else if (name === undefined) await createPage(root, context, worker);
    else await connectorPage(root, context, worker, name, tab);
  },
};

const stateBadge = (state) => h("span", { class: `badge ${STATE_CLASS[state] ?? ""}` }, state);

async function listPage(root, context) {
  const { workers } = await context.api.get("/connect", {}, context.signal);
  root.append(pageHead({ title: "Connectors" }), ...workers.map((each) => workerLine(context, each)));
  if (workers.length === 0) {
    root.append(notice("calm", "Start the console with ", h("code", null, "--connect URL"), " to see the connectors of the workers of Kafka Connect."));
    return;
  }
  const state = h(
    "select", { "aria-label": "State", onchange: () => table.setParameters({ state: state.value }) },
    h("option", { value: "" }, "All states"), STATES.map((each) => h("option", { value: each }, each)),
  );
  const table = dataTable(context, {
    label: "Connectors",
    placeholder: "Search name, type, state or worker",
    filters: [state],
    refreshSeconds: REFRESH_SECONDS,
    columns: [
      { name: "name", title: "Connector", cell: (row) => h("a", { href: context.href(["connect", row.worker, row.name]), class: "mono" }, row.name) },
      { name: "state", title: "State", cell: (row) => stateBadge(row.state) },
      { name: "type", title: "Type", low: true, cell: (row) => row.type },
      { name: "failed", title: "Tasks", number: true, cell: tasks },
      { name: "runs_on", title: "Runs on", low: true, cell: (row) => row.runs_on },
      { name: "worker", title: "Group of", low: true, cell: (row) => row.worker },
    ],
    load: (query) => context.api.get("/connect/connectors", query, context.signal),
    empty: "The workers have no connectors.",
  });
  root.append(table.element);
}

function workerLine(context, { worker, version, problem }) {
  if (problem !== null) return notice("bad", problem);
  const create = context.isReadOnly ? null : h("a", { href: context.href(["connect", worker]) }, `New connector at ${worker}`);
  return h("p", { class: "row" }, h("span", { class: "muted" }, `${worker}, version ${version}`), create);
}

function tasks(row) {
  const running = `${number(row.running)} of ${number(row.tasks)} run`;
  return row.failed > 0 ? [running, ", ", h("span", { class: "badge bad" }, `${number(row.failed)} failed`)] : running;
}

async function connectorPage(root, context, worker, name, tab) {
  const api = path`/connect/${worker}/connectors/${name}`;
  const load = () => context.api.get(api, {}, context.signal);
  let connector = await load();
  context.setTitle(`Connector ${name}`);
  const summary = h("div", { class: "page" });
  const parts = h("div");
  const mark = ageMark(context, summary, { seconds: REFRESH_SECONDS });
  let shown = "";
  const show = (problem = null) => {
    mark.show(connector);
    fill(summary, summaryOf(connector, mark), problem);
    const present = JSON.stringify([connector.connector, connector.tasks]);
    if (tab !== "" || shown === present) return; // so that an open trace stays open
    shown = present;
    fill(parts, taskTable(connector));
  };
  const refresh = async () => {
    connector = await load();
    show();
  };
  root.append(
    pageHead({
      title: `Connector ${name}`, crumbs: [["Connectors", context.href(["connect"])]],
      actions: context.isReadOnly ? [] : actions(context, api, name, refresh),
    }),
    summary,
    tabs(tab, [
      ["", "Tasks", context.href(["connect", worker, name])],
      ["offsets", "Offsets", context.href(["connect", worker, name, "offsets"])],
      ["config", "Configuration", context.href(["connect", worker, name, "config"])],
    ]),
  );
  show();
  if (tab === "offsets") await offsetsTab(root, context, api, name);
  else if (tab === "config") await configPage(root, context, worker, name);
  else root.append(parts);
  every(context, REFRESH_SECONDS, refresh, (error) => show(isLost() ? null : notice("bad", error.message)));
}

function summaryOf(connector, mark) {
  const running = connector.tasks.filter((each) => each.state === "RUNNING").length;
  return aged(mark, tiles([
    { title: "State", value: stateBadge(connector.connector.state), more: `on ${connector.connector.runs_on}` },
    { title: "Type", value: connector.type, more: connector.connector_class.split(".").at(-1) },
    { title: "Tasks", value: `${number(running)} of ${number(connector.tasks.length)}`, more: "run" },
    { title: "Topics", value: number(connector.topics.length), more: connector.topics.slice(0, 3).join(", ") },
  ]));
}

function taskTable(connector) {
  const parts = [connector.connector, ...connector.tasks];
  const columns = [
    { title: "Part", cell: (row) => h("span", { class: "row" }, row.task === null ? "connector" : `task ${row.task}`) },
    { title: "State", cell: (row) => stateBadge(row.state) },
    { title: "Runs on", cell: (row) => h("span", { class: "row" }, row.runs_on) },
    { title: "Error", cell: error },
  ];
  return plainTable("Tasks", columns, parts);
}

function error(row) {
  if (row.state !== "FAILED") return null;
  return [
    row.hint ? h("p", null, row.hint) : null,
    h("details", null, h("summary", null, row.trace.split("\n", 1)[0] || "no trace"), h("pre", { tabindex: "0" }, row.trace)),
  ];
}

async function offsetsTab(root, context, api, name) {
  const { offsets } = await context.api.get(`${api}/offsets`, {}, context.signal);
  const columns = [
    { title: "Partition", cell: (row) => h("code", null, JSON.stringify(row.partition)) },
    { title: "Offset", cell: (row) => h("code", null, JSON.stringify(row.offset)) },
  ];
  const reset = () => actionDialog(context, { title: `Reset the offsets of ${name}`, path: `${api}/reset-offsets`, verb: "Reset", danger: true, confirm: name, done: context.reload });
  root.append(
    context.isReadOnly ? "" : h("p", { class: "row" }, h("button", { class: "danger", onclick: reset }, "Reset offsets"), h("span", { class: "muted" }, "The connector must be stopped first.")),
    plainTable("Offsets", columns, offsets, "The connector has no offsets."),
    h("p", { class: "muted" }, plural(offsets.length, "offset")),
  );
}

// Actions

function actions(context, api, name, done) {
  const ask = (verb, action, more = {}) => () => actionDialog(context, { title: `${verb} the connector ${name}`, path: `${api}/${action}`, verb, done, ...more });
  const gone = { danger: true, confirm: name, done: () => context.go(["connect"]) };
  return [
    h("button", { onclick: ask("Pause", "pause") }, "Pause"),
    h("button", { onclick: ask("Resume", "resume") }, "Resume"),
    h("button", { onclick: ask("Stop", "stop") }, "Stop"),
    h("button", { onclick: ask("Restart", "restart") }, "Restart"),
    h("button", { onclick: ask("Restart", "restart", { body: () => ({ failed: true }) }) }, "Restart failed tasks"),
    h("button", { class: "danger", onclick: ask("Delete", "delete", gone) }, "Delete"),
  ];
}
