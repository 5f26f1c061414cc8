// Consumer groups: the list, and one group with its partitions, members, lag, and the actions on its offsets.
import { h, fill } from "../parts/dom.js";
import { path } from "../parts/api.js";
import { duration, number, plural } from "../parts/format.js";
import { actionDialog } from "../parts/dialog.js";
import { form } from "../parts/form.js";
import { lineGraph } from "../parts/graph.js";
import { ageMark, isLost } from "../parts/contact.js";
import { aged, card, every, notice, pageHead, tabs, tiles } from "../parts/page.js";
import { dataTable, plainTable } from "../parts/table.js";

const STATES = ["Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead"];
const REFRESH_SECONDS = 5;
const SAMPLE_SECONDS = 10; // the pause between two points of the graphs, if no page is open

export default {
  name: "groups",
  title: "Groups",
  group: "Consumers",
  icon: "groups",
  key: "g",
  path: "groups/*",
  async render(root, context) {
    const [id, tab] = context.params.rest;
    if (id === undefined) listPage(root, context);
    else await groupPage(root, context, id, tab ?? "");
  },
};

const STATUS_CLASS = { OK: "good", WARN: "warn", STOP: "bad", STALL: "bad", REWIND: "bad" };

/** The state of a group or partition by Burrow's rules, with the sentence as its explanation. */
function statusBadge(status, explanation) {
  if (!status) return h("span", { class: "muted", title: "Not enough was seen yet." }, "–");
  return h("span", { class: `badge ${STATUS_CLASS[status]}`, title: explanation || null }, status);
}

/** The lag in records. If the end of a partition is unknown, the sum of the others is too small. */
function lagCount(row) {
  if (row.lag === null) return row.unknown_partitions > 0 ? "unknown" : "–";
  const missing = plural(row.unknown_partitions, "partition");
  return row.unknown_partitions > 0 ? h("span", { title: `The lag of ${missing} is unknown.` }, `≥ ${number(row.lag)}`) : number(row.lag);
}

const LEAST_SECONDS = 60; // A smaller "at least" says little.

const seconds = (value) => (value === null || value === undefined ? "–" : value < 1 ? "0 s" : duration(value * 1000));

/** The age of the first unread record. It may be older than everything that the console has seen. */
function lagTime(row) {
  if (!row.is_at_least) return seconds(row.lag_seconds);
  return row.lag_seconds < LEAST_SECONDS ? "–" : h("span", { title: "The first unread record is older than the console's samples." }, `> ${seconds(row.lag_seconds)}`);
}

function listPage(root, context) {
  const state = h(
    "select", { "aria-label": "State", onchange: () => table.setParameters({ state: state.value }) },
    h("option", { value: "" }, "All states"), STATES.map((each) => h("option", { value: each }, each)),
  );
  const table = dataTable(context, {
    label: "Groups",
    placeholder: "Search group, state or type",
    filters: [state],
    columns: [
      { name: "group", title: "Group", cell: (row) => h("a", { href: context.href(["groups", row.group]), class: "mono" }, row.group) },
      { name: "state", title: "State", cell: (row) => row.state || "–" },
      { name: "type", title: "Type", low: true, cell: (row) => row.type || "–" },
      { name: "members", title: "Members", number: true, sort: false, low: true, cell: (row) => number(row.members) },
      { name: "lag", title: "Lag", number: true, sort: false, cell: (row) => (row.error ? h("span", { title: row.error }, "–") : lagCount(row)) },
      { name: "lag_seconds", title: "Lag in time", number: true, sort: false, low: true, cell: lagTime },
      { name: "status", title: "Status", sort: false, cell: (row) => statusBadge(row.status, row.explanation) },
    ],
    load: (query) => context.api.get("/groups", query, context.signal),
    empty: "The cluster has no groups.",
  });
  root.append(pageHead({ title: "Groups" }), table.element);
}

async function groupPage(root, context, id, tab) {
  const load = () => context.api.get(path`/groups/${id}`, {}, context.signal);
  let group = await load();
  context.setTitle(`Group ${id}`);
  const summary = h("div", { class: "page" });
  const history = h("div");
  const mark = ageMark(context, summary, { seconds: REFRESH_SECONDS });
  const historyMarks = ["records", "time"].map(() => ageMark(context, history, { seconds: REFRESH_SECONDS }));
  const show = async () => {
    mark.show(group);
    fill(summary, summaryOf(group, mark));
    const found = await context.api.get(path`/groups/${id}/history`, {}, context.signal);
    for (const each of historyMarks) each.show(found);
    fill(history, graphs(id, found, historyMarks.map((each) => each.element)));
  };
  root.append(
    pageHead({
      title: `Group ${id}`, crumbs: [["Groups", context.href(["groups"])]],
      actions: context.isReadOnly ? [] : actions(context, id, () => group, async () => { group = await load(); await show(); table.reload(); }),
    }),
    summary, history,
    tabs(tab, [["", "Partitions", context.href(["groups", id])], ["members", "Members", context.href(["groups", id, "members"])]]),
  );
  const table = tab === "members" ? memberTable(context, id) : partitionTable(context, id);
  root.append(table.element);
  every(context, REFRESH_SECONDS, async () => {
    group = await load();
    await show();
  }, (error) => fill(summary, summaryOf(group, mark), isLost() ? null : notice("bad", error.message)));
}

function summaryOf(group, mark) {
  const epoch = group.epoch === null ? null : `epoch ${group.epoch}`;
  return [
    group.explanation ? notice(STATUS_CLASS[group.status] === "bad" ? "bad" : "", group.explanation) : null,
    aged(mark, tiles([
      { title: "State", value: group.state, more: group.protocol || "offsets only" },
      { title: "Status", value: statusBadge(group.status, group.explanation), more: "by Burrow's rules" },
      { title: "Lag", value: lagCount(group), more: group.unknown_partitions > 0 ? `${plural(group.unknown_partitions, "partition does", "partitions do")} not answer` : plural(group.partitions, "partition") },
      { title: "Lag in time", value: lagTime(group), more: "age of the first unread record" },
      { title: "Members", value: number(group.members), more: group.idle_members ? `${number(group.idle_members)} without partitions` : group.assignor || null },
      { title: "Coordinator", value: `broker ${group.coordinator.id}`, more: epoch ?? group.coordinator.address },
    ])),
  ];
}

function graphs(id, { points, as_of: asOf, age_ms: ageMs }, ages) {
  const times = { every: SAMPLE_SECONDS * 1000, until: asOf + ageMs };
  const at = (value) => points.map((point) => [point.time_ms, value(point)]);
  const topics = [...new Set(points.flatMap((point) => Object.keys(point.topics)))].slice(0, 5);
  const series = topics.length > 1
    ? [{ name: "all topics", points: at((point) => point.lag) }, ...topics.map((topic) => ({ name: topic, points: at((point) => point.topics[topic] ?? null) }))]
    : [{ name: "lag", points: at((point) => point.lag) }];
  return h(
    "div", { class: "columns" },
    card("Lag in records", ages[0], lineGraph({ label: `Lag of group ${id} in records`, series, area: series.length === 1, isHalf: true, ...times })),
    card("Lag in time", ages[1], lineGraph({ label: `Lag of group ${id} in time`, series: [{ name: "lag", points: at((point) => point.lag_seconds) }], format: seconds, kind: "seconds", area: true, isHalf: true, ...times })),
  );
}

function partitionTable(context, id) {
  return dataTable(context, {
    label: "Partitions",
    placeholder: "Search partition, member or status",
    refreshSeconds: REFRESH_SECONDS,
    height: 25,
    columns: [
      { name: "partition", title: "Partition", cell: (row) => h("span", { class: "mono" }, `${row.topic}-${row.partition}`) },
      { name: "committed", title: "Committed", number: true, sort: false, low: true, cell: (row) => number(row.committed) },
      { name: "end", title: "End", number: true, sort: false, low: true, cell: (row) => number(row.end) },
      { name: "lag", title: "Lag", number: true, cell: (row) => number(row.lag) },
      { name: "lag_seconds", title: "Lag in time", number: true, cell: lagTime },
      { name: "catch_up", title: "Catches up in", number: true, sort: false, low: true, cell: (row) => seconds(row.catch_up_seconds) },
      { name: "status", title: "Status", cell: (row) => statusBadge(row.status, row.explanation) },
      { name: "member", title: "Member", low: true, cell: (row) => (row.member ? h("span", { title: row.host }, row.member) : "–") },
    ],
    load: (query) => context.api.get(path`/groups/${id}/partitions`, query, context.signal),
    empty: "The group has no offsets and no partitions.",
  });
}

function memberTable(context, id) {
  return dataTable(context, {
    label: "Members",
    placeholder: "Search client, host, member or topic",
    refreshSeconds: REFRESH_SECONDS,
    height: 25,
    columns: [
      { name: "client_id", title: "Client", cell: (row) => h("span", { title: row.member_id }, row.client_id || row.member_id) },
      { name: "host", title: "Host", cell: (row) => row.host },
      { name: "instance", title: "Instance", sort: false, low: true, cell: (row) => row.instance_id ?? "–" },
      { name: "partitions", title: "Partitions", number: true, cell: (row) => h("span", { title: row.assignment }, number(row.partitions)) },
      { name: "lag", title: "Lag", number: true, cell: (row) => number(row.lag) },
      { name: "assignment", title: "Assignment", sort: false, low: true, cell: (row) => row.assignment || "–" },
    ],
    load: (query) => context.api.get(path`/groups/${id}/members`, query, context.signal),
    empty: "The group has no members.",
  });
}

// Actions

function actions(context, id, present, done) {
  return [
    h("button", { onclick: () => resetDialog(context, id, present(), done) }, "Reset offsets"),
    h("button", { onclick: () => deleteOffsetsDialog(context, id, present(), done) }, "Delete offsets"),
    h("button", { class: "danger", onclick: () => deleteDialog(context, id) }, "Delete"),
  ];
}

function resetDialog(context, id, group, done) {
  const value = h("input", { type: "text", placeholder: "an offset, such as 1200", autocomplete: "off" });
  const time = h("input", { type: "datetime-local", step: "1" });
  const edits = new Map();
  const fields = form([
    {
      name: "position", label: "New position",
      options: [
        { value: "earliest", label: "The first record" },
        { value: "latest", label: "The end" },
        { value: "time", label: "The first record at or after a time" },
        { value: "offset", label: "An offset" },
        { value: "shift", label: "The present offset plus a number" },
        { value: "current", label: "The present offset" },
      ],
    },
    { name: "value", label: "Offset, or number to add", element: value, read: () => (/^-?\d+$/.test(value.value.trim()) ? Number(value.value) : undefined) },
    { name: "time", label: "Time", element: time, read: () => undefined },
    { name: "topics", label: "Topics", placeholder: "all topics of the group", hint: "Several topics with spaces between them. A topic may name its partitions: orders:0,1", value: "" },
  ]);
  const position = fields.input("position");
  const update = () => {
    value.closest(".field").hidden = !["offset", "shift"].includes(position.value);
    time.closest(".field").hidden = position.value !== "time";
    value.required = !value.closest(".field").hidden;
    time.required = !time.closest(".field").hidden;
  };
  position.addEventListener("change", update);
  const body = () => ({
    position: position.value,
    value: position.value === "time" ? (time.value ? new Date(time.value).getTime() : undefined) : fields.values().value,
    topics: fields.input("topics").value.split(/\s+/).filter(Boolean),
    edits: Object.fromEntries(edits),
    all_topics: true,
  });
  update();
  actionDialog(context, {
    title: `Reset the offsets of ${id}`,
    text: group.can_reset ? null : `The group has members now (${group.state}). Its offsets can be reset after its consumers have stopped.`,
    path: path`/groups/${id}/reset`,
    fields, body, verb: "Reset", danger: true, wide: true, done,
    show: (outcome) => planTable(outcome.details.rows, edits, fields),
  });
}

/** The preview of a reset. The new offset of each partition can be edited, which asks for a new preview. */
function planTable(rows, edits, fields) {
  const columns = [
    { title: "Partition", cell: (row) => h("span", { class: "mono" }, `${row.topic}-${row.partition}`) },
    { title: "Present", number: true, cell: (row) => number(row.current) },
    { title: "New", number: true, cell: (row) => newOffset(row, edits, fields) },
    { title: "Change", number: true, cell: (row) => (row.new === null || row.current === null ? "–" : number(row.new - row.current)) },
    { title: "In the log", cell: (row) => (row.start === null ? "–" : `${number(row.start)} to ${number(row.end)}`) },
    { title: "Note", cell: (row) => row.error ?? row.note },
  ];
  return plainTable("New offsets", columns, rows, "The group has no offsets to reset. Name a topic.");
}

function newOffset(row, edits, fields) {
  const name = `${row.topic}:${row.partition}`;
  const changed = (event) => {
    if (/^\d+$/.test(input.value.trim())) edits.set(name, input.value.trim());
    else edits.delete(name);
    event.stopPropagation();
    // The form did not change, but the body did, so the dialog must ask for a new preview.
    fields.element.dispatchEvent(new Event("input"));
    fields.element.requestSubmit();
  };
  const input = h("input", { class: "offset", inputmode: "numeric", "aria-label": `New offset of ${row.topic}-${row.partition}`, value: row.new ?? "", onchange: changed });
  return input;
}

function deleteOffsetsDialog(context, id, group, done) {
  const fields = form([{ name: "topic", label: "Topic", options: group.topics, required: true, hint: "No member may read this topic." }]);
  actionDialog(context, { title: `Delete offsets of ${id}`, path: path`/groups/${id}/delete-offsets`, fields, verb: "Delete offsets", danger: true, done });
}

function deleteDialog(context, id) {
  actionDialog(context, {
    title: `Delete the group ${id}`, path: path`/groups/${id}/delete`, verb: "Delete", danger: true, confirm: id,
    done: () => context.go(["groups"]),
  });
}
