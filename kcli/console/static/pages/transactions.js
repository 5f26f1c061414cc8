// The transactions, one transaction, and those that hang.
import { h } from "../parts/dom.js";
import { duration, number, plural, time } from "../parts/format.js";
import { actionDialog } from "../parts/dialog.js";
import { icon } from "../parts/icons.js";
import { freshPart } from "../parts/contact.js";
import { card, notice, pageHead, tabs, tiles } from "../parts/page.js";
import { dataTable, plainTable } from "../parts/table.js";

const FIGURES_SECONDS = 15;

export default {
  name: "transactions",
  title: "Transactions",
  group: "Data",
  icon: "transactions",
  key: "x",
  path: "transactions/*",
  async render(root, context) {
    const [tab, id] = context.params.rest;
    if (tab === "id" && id !== undefined) await onePage(root, context, id);
    else listPage(root, context, tab === "hanging");
  },
};

function listPage(root, context, isHanging) {
  root.append(
    pageHead({ title: "Transactions" }),
    tabs(isHanging ? "hanging" : "", [["", "All", context.href(["transactions"])], ["hanging", "Hanging", context.href(["transactions", "hanging"])]]),
  );
  if (isHanging) hangingTab(root, context);
  else allTab(root, context);
}

const STATES = { Ongoing: "accent", PrepareCommit: "warn", PrepareAbort: "warn", PrepareEpochFence: "warn", CompleteCommit: "good" };

const state = (row) => h("span", { class: `badge ${STATES[row.state] ?? ""}` }, row.state);

function allTab(root, context) {
  const open = h("input", { type: "checkbox", id: "open", onchange: () => table.setParameters({ open: open.checked ? 1 : "" }) });
  const table = dataTable(context, {
    label: "Transactions",
    placeholder: "Search transactional id, state or producer id",
    filters: [h("label", { class: "row", for: "open" }, open, "Only open")],
    columns: [
      { name: "transactional_id", title: "Transactional id", cell: (row) => h("a", { href: context.href(["transactions", "id", row.transactional_id]) }, row.transactional_id) },
      { name: "state", title: "State", cell: state },
      { name: "producer_id", title: "Producer id", number: true, low: true, cell: (row) => String(row.producer_id) },
      { name: "coordinator", title: "Coordinator", number: true, low: true, cell: (row) => String(row.coordinator) },
    ],
    load: (query) => context.api.get("/transactions", query, context.signal),
    empty: "There are no transactions.",
  });
  root.append(table.element);
}

function hangingTab(root, context) {
  const table = dataTable(context, {
    label: "Hanging transactions",
    searchable: true,
    placeholder: "Search topic or producer id",
    refreshSeconds: 300,
    columns: [
      { name: "topic", title: "Partition", cell: (row) => h("span", { class: "mono" }, `${row.topic}-${row.partition}`) },
      { name: "producer_id", title: "Producer id", sort: false, number: true, low: true, cell: (row) => String(row.producer_id) },
      { name: "start_offset", title: "From offset", sort: false, number: true, cell: (row) => number(row.start_offset) },
      { name: "last_timestamp_ms", title: "Last record", sort: false, cell: (row) => time(row.last_timestamp_ms) },
      {
        name: "abort", title: "", label: "Abort", sort: false,
        cell: (row) => (context.isReadOnly ? null : h("button", { class: "danger", onclick: () => abortHanging(context, row, table) }, "Abort")),
      },
    ],
    load: (query) => context.api.get("/transactions/hanging", query, context.signal),
    empty: "No transaction hangs.",
  });
  root.append(
    notice("calm", "A transaction hangs if no coordinator will end it. Consumers with read_committed stop before it. Transactions whose last record is older than 15 minutes are looked at."),
    table.element,
  );
}

function abortHanging(context, row, table) {
  actionDialog(context, {
    title: `Abort the transaction in ${row.topic}-${row.partition}`,
    text: "Its records are never seen by consumers with read_committed.",
    path: "/transactions/abort",
    body: () => ({ topic: row.topic, partition: row.partition, start_offset: row.start_offset }),
    verb: "Abort",
    danger: true,
    done: () => table.reload(true),
  });
}

async function onePage(root, context, id) {
  const load = () => context.api.get("/transactions/by-id", { id }, context.signal);
  const found = await load();
  context.setTitle(`Transaction ${found.transactional_id}`);
  const isEndable = found.is_open && !context.isReadOnly;
  const end = h("button", { class: "danger", onclick: () => terminate(context, found) }, icon("stop"), "Abort and fence");
  root.append(
    pageHead({ title: found.transactional_id, crumbs: [["Transactions", context.href(["transactions"])]], actions: isEndable ? [end] : [] }),
    freshPart(context, { seconds: FIGURES_SECONDS, first: found, load, draw: (now) => figures(context, now) }).element,
  );
}

function figures(context, found) {
  return [
    tiles([
      { title: "State", value: state(found) },
      { title: "Producer id", value: String(found.producer_id), more: `epoch ${found.producer_epoch}` },
      { title: "Coordinator", value: h("a", { href: context.href(["brokers", found.coordinator]) }, `broker ${found.coordinator}`) },
      { title: "Time-out", value: duration(found.timeout_ms) },
      found.start_ms === null ? null : { title: "Began", value: `${duration(Math.max(0, found.now_ms - found.start_ms))} ago`, more: time(found.start_ms), kind: found.is_open && found.now_ms - found.start_ms > found.timeout_ms ? "warn" : "" },
      { title: "Partitions", value: plural(found.partitions.length, "partition") },
    ]),
    card("Partitions", [], plainTable("Partitions of the transaction", [
      { title: "Topic", cell: (row) => h("a", { href: context.href(["topics", row.topic]) }, row.topic) },
      { title: "Partition", number: true, cell: (row) => String(row.partition) },
    ], found.partitions, "The transaction has no partitions.")),
  ];
}

function terminate(context, found) {
  actionDialog(context, {
    title: `Abort the transaction of ${found.transactional_id}`,
    text: "The producer gets an error, and its records are never seen by consumers with read_committed.",
    path: "/transactions/terminate",
    body: () => ({ transactional_id: found.transactional_id }),
    verb: "Abort",
    danger: true,
    confirm: found.transactional_id,
    done: () => context.go(["transactions"]),
  });
}
