// The brokers, and one broker with its settings and log directories.
import { h } from "../parts/dom.js";
import { path } from "../parts/api.js";
import { bytes, number, plural } from "../parts/format.js";
import { usageBar } from "../parts/graph.js";
import { freshPart } from "../parts/contact.js";
import { notice, pageHead, tabs, tiles } from "../parts/page.js";
import { settingsTable } from "../parts/settings.js";
import { dataTable, plainTable } from "../parts/table.js";

const FIGURES_SECONDS = 15;

export default {
  name: "brokers",
  title: "Brokers",
  group: "Cluster",
  icon: "brokers",
  key: "b",
  path: "brokers/*",
  async render(root, context) {
    const [id, tab] = context.params.rest;
    if (id === undefined) listPage(root, context);
    else await brokerPage(root, context, id, tab ?? "");
  },
};

function listPage(root, context) {
  const table = dataTable(context, {
    label: "Brokers",
    placeholder: "Search id, host or rack",
    columns: [
      { name: "id", title: "Id", cell: (row) => [h("a", { href: context.href(["brokers", row.id]) }, row.id), badges(row)] },
      { name: "host", title: "Address", cell: address },
      { name: "rack", title: "Rack", low: true, cell: (row) => row.rack ?? "–" },
      { name: "leaders", title: "Leaders", number: true, cell: (row) => number(row.leaders) },
      { name: "replicas", title: "Replicas", number: true, low: true, cell: (row) => number(row.replicas) },
      { name: "out_of_sync", title: "Out of sync", number: true, cell: outOfSync },
      { name: "size_bytes", title: "Records", number: true, cell: (row) => (row.error ? h("span", { title: row.error }, "–") : bytes(row.size_bytes)) },
      { name: "usable_bytes", title: "Disk", low: true, cell: disk },
    ],
    load: (query) => context.api.get("/brokers", query, context.signal),
    empty: "The cluster has no brokers.",
  });
  root.append(pageHead({ title: "Brokers" }), table.element);
}

async function brokerPage(root, context, id, tab) {
  const load = () => context.api.get(path`/brokers/${id}`, {}, context.signal);
  const first = await load();
  const { broker } = first;
  context.setTitle(`Broker ${broker.id}`);
  root.append(
    pageHead({ title: `Broker ${broker.id}`, crumbs: [["Brokers", context.href(["brokers"])]], note: badges(broker) }),
    tabs(tab, [["", "Log directories", context.href(["brokers", id])], ["configs", "Settings", context.href(["brokers", id, "configs"])]]),
  );
  if (tab === "configs") root.append(settingsTable(context, { api: path`/brokers/${id}/configs`, target: `broker ${id}` }));
  else root.append(freshPart(context, { seconds: FIGURES_SECONDS, first, load, draw: directoriesTab }).element);
}

function directoriesTab({ broker, directories }) {
  return [
    tiles([
      { title: "Address", value: h("span", { class: "mono" }, address(broker)), more: broker.rack ? `rack ${broker.rack}` : null },
      { title: "Leaders", value: number(broker.leaders), more: `${number(broker.preferred_leaders)} preferred` },
      { title: "Replicas", value: number(broker.replicas) },
      { title: "Out of sync", value: number(broker.out_of_sync), kind: broker.out_of_sync > 0 ? "warn" : "" },
      { title: "Records", value: bytes(broker.size_bytes), more: plural(directories.length, "directory", "directories") },
    ]),
    directoriesOf(broker, directories),
  ];
}

function directoriesOf(broker, directories) {
  if (broker.is_fenced) return notice("bad", "The broker is fenced: the controller gets no heartbeats from it.");
  if (broker.error) return notice("bad", broker.error);
  const columns = [
    { title: "Directory", cell: (row) => [h("code", null, row.path), row.error ? h("p", { class: "problem" }, row.error) : null] },
    { title: "Replicas", number: true, cell: (row) => number(row.replicas) },
    { title: "Records", number: true, cell: (row) => bytes(row.size_bytes) },
    { title: "Disk", cell: disk },
  ];
  return h("section", { class: "card" }, plainTable("Log directories", columns, directories, "The broker reports no log directories."));
}

const address = (row) => (row.host ? `${row.host}:${row.port}` : "–");

function badges(row) {
  return [
    row.is_controller ? [" ", h("span", { class: "badge" }, "controller")] : null,
    row.is_fenced ? [" ", h("span", { class: "badge bad" }, "fenced")] : null,
  ];
}

function outOfSync(row) {
  return row.out_of_sync > 0 ? h("span", { class: "badge warn" }, number(row.out_of_sync)) : "0";
}

function disk(row) {
  if (row.total_bytes === null) return h("span", { class: "muted" }, "unknown");
  return usageBar(row.total_bytes - row.usable_bytes, row.total_bytes, `${bytes(row.usable_bytes)} free`);
}
