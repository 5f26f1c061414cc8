// Reassignment and balance: moves in progress, and runs that make the brokers even.
import { h, fill } from "../parts/dom.js";
import { bytes, number, plural, time } from "../parts/format.js";
import { actionDialog, copy, openDialog } from "../parts/dialog.js";
import { form } from "../parts/form.js";
import { ageMark, isLost } from "../parts/contact.js";
import { aged, card, every, notice, pageHead } from "../parts/page.js";
import { dataTable, plainTable } from "../parts/table.js";

const REFRESH_SECONDS = 2;
const MEGABYTE = 1_000_000;
const OPEN_MAX = 20; // partitions of a list that is open

export default {
  name: "balance",
  title: "Balance",
  group: "Cluster",
  icon: "balance",
  key: "l",
  path: "balance",
  async render(root, context) {
    const state = h("div", { "aria-live": "polite" });
    const mark = ageMark(context, state, { seconds: REFRESH_SECONDS });
    const table = moveTable(context);
    const show = async () => {
      const found = await context.api.get("/balance", {}, context.signal);
      mark.show(found);
      fill(state, found.run ? aged(mark, runCard(context, found.run, show)) : null);
    };
    const actions = context.isReadOnly ? [] : [
      h("button", { class: "primary", onclick: () => balanceDialog(context, show) }, "Balance"),
      h("button", { onclick: () => throttleDialog(context, table) }, "Throttle"),
      h("button", { onclick: () => electionDialog(context) }, "Elect preferred leaders"),
      h("button", { class: "danger", onclick: () => cancelDialog(context, [], table) }, "Cancel all moves"),
    ];
    root.append(pageHead({ title: "Reassignment and balance", actions }), state, h("h2", null, "Moves in progress"), table.element);
    every(context, REFRESH_SECONDS, show, (error) => isLost() || fill(state, notice("bad", error.message)));
  },
};

const ids = (brokers) => brokers.join(", ");
const both = (before, after, format) => (before === after ? format(before) : `${format(before)} → ${format(after)}`);

function moveTable(context) {
  const table = dataTable(context, {
    label: "Moves in progress",
    placeholder: "Search topic or partition",
    refreshSeconds: REFRESH_SECONDS,
    columns: [
      { name: "partition", title: "Partition", cell: (row) => h("span", { class: "mono" }, `${row.topic}-${row.partition}`) },
      { name: "adding", title: "To", sort: false, cell: (row) => ids(row.adding) || "–" },
      { name: "removing", title: "From", sort: false, cell: (row) => ids(row.removing) || "–" },
      { name: "replicas", title: "Replicas", sort: false, low: true, cell: (row) => ids(row.replicas) },
      { name: "copied_bytes", title: "Copied", cell: (row) => (row.copied_bytes === null ? "–" : progress(row.copied_bytes, row.total_bytes, `${bytes(row.copied_bytes)} of ${bytes(row.total_bytes)}`)) },
      { name: "cancel", title: "", label: "Cancel", sort: false, cell: (row) => (context.isReadOnly ? null : h("button", { class: "plain", onclick: () => cancelDialog(context, [`${row.topic}:${row.partition}`], table) }, "Cancel")) },
    ],
    load: (query) => context.api.get("/reassignments", query, context.signal),
    empty: "No partition moves.",
  });
  return table;
}

/** The run of this console: what it does now, what it has done, and the file that moves everything back. */
function runCard(context, run, changed) {
  const stop = context.isReadOnly || run.is_over ? null : h("button", { class: "danger", onclick: () => stopDialog(context, changed) }, "Stop");
  const undo = h("button", { onclick: () => undoDialog(run) }, "Undo file");
  return card(
    run.is_over ? "The last run" : "A run is in progress", [undo, stop],
    h(
      "div", { class: "card-body form" },
      h("p", null, `${time(run.began_ms)}, ${run.user}: ${run.summary}`),
      run.undo_path ? h("p", { class: "muted" }, "Undo file on the machine of the console: ", h("code", null, run.undo_path)) : null,
      run.batches && !run.is_over ? progress(run.batch, run.batches, `${number(run.batch)} of ${plural(run.batches, "batch", "batches")}`) : null,
      run.current ? h("p", { class: "mono" }, run.current) : null,
      run.error ? notice("bad", run.error) : null,
      run.lines.length > 0 ? h("pre", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Report of the run" }, run.lines.slice(-12).join("\n")) : null,
    ),
  );
}

function progress(done, all, text) {
  return h("div", { class: "row" }, h("progress", { value: done, max: Math.max(all, 1), "aria-label": text }), h("span", null, text));
}

function balanceDialog(context, done) {
  const fields = form([
    { name: "leaving", label: "Brokers to empty", placeholder: "none", hint: "Ids with spaces between them. All replicas leave these brokers." },
    { name: "topics", label: "Topics", placeholder: "all topics", hint: "Names with spaces between them. A star stands for any end: orders-*" },
    { name: "replication_factor", label: "Replicas of each partition", type: "number", min: 1, max: 100, placeholder: "unchanged" },
    { name: "throttle", label: "Throttle in MB per second and broker", type: "number", min: 1, placeholder: "chosen by the traffic" },
    { name: "ignore_racks", label: "Ignore racks", type: "checkbox" },
  ]);
  const words = (name) => fields.input(name).value.split(/[\s,]+/).filter(Boolean);
  const body = () => {
    const values = fields.values();
    return {
      leaving: words("leaving"), topics: words("topics"), ignore_racks: values.ignore_racks,
      replication_factor: values.replication_factor ?? 0, throttle: (values.throttle ?? 0) * MEGABYTE,
    };
  };
  actionDialog(context, {
    title: "Balance the brokers",
    text: "Replicas, leaders and bytes of the brokers become even with few moves. Moves are made in batches and with a throttle.",
    path: "/balance", fields, body, verb: "Move", wide: true, done, show: planView,
  });
}

function planView(outcome) {
  const { brokers, moves } = outcome.details;
  const loads = [
    { title: "Broker", cell: (row) => (row.rack ? `${row.broker} (${row.rack})` : row.broker) },
    { title: "Replicas", number: true, cell: (row) => both(row.replicas_before, row.replicas_after, number) },
    {
      title: "Preferred leaders", number: true,
      cell: (row) => both(row.preferred_leaders_before, row.preferred_leaders_after, number),
    },
    { title: "Records", number: true, cell: (row) => both(row.bytes_before, row.bytes_after, bytes) },
  ];
  const columns = [
    { title: "Partition", cell: (row) => h("span", { class: "mono" }, `${row.topic}-${row.partition}`) },
    { title: "Replicas", cell: (row) => `${ids(row.replicas)} → ${ids(row.target)}` },
    { title: "Copied", number: true, cell: (row) => (row.copied_bytes ? bytes(row.copied_bytes) : "–") },
  ];
  return [
    plainTable("Brokers before and after", loads, brokers),
    moves.length > 0 ? h("details", null, h("summary", null, `The first ${plural(moves.length, "move")}`), plainTable("Moves", columns, moves)) : null,
  ];
}

function throttleDialog(context, table) {
  const fields = form([{ name: "rate", label: "MB per second and broker", type: "number", min: 0, required: true, hint: "0 removes the throttle." }]);
  actionDialog(context, {
    title: "Throttle the moves in progress", path: "/reassignments/throttle", fields,
    body: () => ({ rate: (fields.values().rate ?? 0) * MEGABYTE }), verb: "Set", done: () => table.reload(),
  });
}

function cancelDialog(context, partitions, table) {
  actionDialog(context, {
    title: partitions.length > 0 ? `Cancel the move of ${partitions[0]}` : "Cancel all moves",
    path: "/reassignments/cancel", body: () => ({ partitions }), verb: "Cancel moves", danger: true, wide: true, done: () => table.reload(),
  });
}

function electionDialog(context) {
  actionDialog(context, {
    title: "Elect preferred leaders",
    text: "The preferred leader of a partition is its first replica. After the restart of a broker, other brokers still lead its partitions.",
    path: "/leaders/elect", verb: "Elect", wide: true, show: electionView,
  });
}

function electionView(outcome) {
  const { brokers, changes } = outcome.details;
  if (changes.length === 0) return null;
  const loads = [
    { title: "Broker", cell: (row) => row.broker },
    { title: "Leaders", number: true, cell: (row) => both(row.before, row.after, number) },
  ];
  const columns = [
    { title: "Partition", cell: (row) => h("span", { class: "mono" }, `${row.topic}-${row.partition}`) },
    { title: "Leader", cell: (row) => `${row.leader ?? "none"} → ${row.preferred}` },
  ];
  return [
    plainTable("Brokers before and after", loads, brokers),
    h("details", { open: changes.length <= OPEN_MAX }, h("summary", null, `The first ${plural(changes.length, "partition")}`), plainTable("Partitions", columns, changes)),
  ];
}

function stopDialog(context, done) {
  actionDialog(context, { title: "Stop the run", path: "/balance/stop", verb: "Stop", danger: true, done });
}

function undoDialog(run) {
  openDialog(
    "The way back",
    [h("p", null, `This file moves the partitions of the run back: kcli reassign-partitions --undo ${run.undo_path ?? "FILE"}`), h("pre", { class: "scroll-x", tabindex: "0" }, run.undo)],
    [h("button", { onclick: () => copy(run.undo) }, "Copy")], { wide: true },
  );
}
