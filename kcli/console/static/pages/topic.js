// One topic: its partitions, its growth, its settings, and what can be done with it.
import { fill, h } from "../parts/dom.js";
import { path } from "../parts/api.js";
import { bytes, number, plural } from "../parts/format.js";
import { actionDialog } from "../parts/dialog.js";
import { form } from "../parts/form.js";
import { lineGraph } from "../parts/graph.js";
import { icon } from "../parts/icons.js";
import { ageMark, freshPart, isLost } from "../parts/contact.js";
import { card, every, pageHead, tabs, tiles } from "../parts/page.js";
import { settingsTable } from "../parts/settings.js";
import { dataTable } from "../parts/table.js";

const GROWTH_SECONDS = 30;
const SAMPLE_SECONDS = 60; // a sample is at most twice as old as the server keeps it
const FIGURES_SECONDS = 15;

export async function topicPage(root, context, name, tab) {
  const topic = await context.api.get(path`/topics/${name}`, {}, context.signal);
  context.setTitle(name);
  root.append(
    pageHead({
      title: name,
      crumbs: [["Topics", context.href(["topics"])]],
      note: topic.is_internal ? h("span", { class: "badge" }, "internal") : null,
      actions: context.isReadOnly ? [] : actions(context, topic),
    }),
    tabs(tab, [
      ["", "Partitions", context.href(["topics", name])],
      ["configs", "Settings", context.href(["topics", name, "configs"])],
      ["growth", "Growth", context.href(["topics", name, "growth"])],
      ["consumers", "Consumers", context.href(["topics", name, "consumers"])],
      context.hasPage("messages") ? ["messages", "Messages", context.href(["messages", name])] : null,
    ].filter(Boolean)),
  );
  if (tab === "configs") root.append(settingsTable(context, { api: path`/topics/${name}/configs`, target: `the topic ${name}` }));
  else if (tab === "growth") growthTab(root, context, name);
  else if (tab === "consumers") consumersTab(root, context, name);
  else partitionsTab(root, context, topic);
}

function actions(context, topic) {
  return [
    h("button", { onclick: () => addPartitions(context, topic) }, icon("plus"), "Add partitions"),
    h("button", { class: "danger", onclick: () => deleteTopic(context, topic) }, icon("trash"), "Delete"),
  ];
}

function addPartitions(context, topic) {
  actionDialog(context, {
    title: `Add partitions to ${topic.name}`,
    path: path`/topics/${topic.name}/partitions`,
    verb: "Add",
    fields: form([{ name: "count", label: "Partitions after the change", type: "number", min: topic.partitions + 1, max: 100000, value: topic.partitions + 1, required: true, hint: `Now: ${number(topic.partitions)}` }]),
    done: context.reload,
  });
}

function deleteTopic(context, topic) {
  actionDialog(context, {
    title: "Delete a topic",
    path: path`/topics/${topic.name}/delete`,
    verb: "Delete",
    danger: true,
    confirm: topic.name,
    done: () => context.go(["topics"]),
  });
}

function partitionsTab(root, context, topic) {
  const draw = (found) => tiles([
    { title: "Partitions", value: number(found.partitions), more: `${plural(found.replication_factor, "replica")} each` },
    { title: "State", ...state(found) },
    { title: "Records, at most", value: number(found.records_max) },
    { title: "Size", value: bytes(found.size_bytes), more: "all replicas" },
  ]);
  const load = () => context.api.get(path`/topics/${topic.name}`, {}, context.signal);
  root.append(freshPart(context, { seconds: FIGURES_SECONDS, first: topic, load, draw }).element);
  const table = dataTable(context, {
    label: "Partitions",
    placeholder: "Search partition, leader or state",
    columns: [
      { name: "partition", title: "Partition", number: true, cell: (row) => number(row.partition) },
      { name: "leader", title: "Leader", number: true, cell: (row) => leader(context, row) },
      { name: "isr", title: "Replicas", cell: replicas },
      { name: "first_offset", title: "First offset", number: true, low: true, cell: (row) => number(row.first_offset) },
      { name: "end_offset", title: "End offset", number: true, cell: (row) => number(row.end_offset) },
      { name: "size_bytes", title: "Size", number: true, low: true, cell: (row) => bytes(row.size_bytes) },
    ],
    load: (query) => context.api.get(path`/topics/${topic.name}/partitions`, query, context.signal),
  });
  root.append(table.element);
}

function state(topic) {
  if (isLost()) return { value: "No answer" };
  if (topic.offline > 0) return { value: `${number(topic.offline)} offline`, kind: "bad" };
  if (topic.under_replicated > 0) return { value: number(topic.under_replicated), more: "under-replicated", kind: "warn" };
  return { value: "In sync", kind: "good" };
}

function leader(context, row) {
  if (row.leader === null) return h("span", { class: "badge bad" }, "none");
  const link = h("a", { href: context.href(["brokers", row.leader]) }, row.leader);
  return row.state === "not preferred" ? [h("span", { class: "badge", title: `The preferred leader is broker ${row.preferred_leader}.` }, "not preferred"), " ", link] : link;
}

function replicas(row) {
  return row.replicas.map((broker, index) => {
    const isIn = row.isr.includes(broker);
    const shown = isIn ? String(broker) : h("span", { class: "badge warn", title: "Not in sync" }, broker, h("span", { class: "hidden-text" }, " not in sync"));
    return index === 0 ? shown : [", ", shown];
  });
}

function consumersTab(root, context, name) {
  const more = h("p", { class: "muted", hidden: true });
  const table = dataTable(context, {
    label: "Consumers",
    placeholder: "Search group or state",
    columns: [
      { name: "group", title: "Group", cell: (row) => h("a", { href: context.href(["groups", row.group]), class: "mono", title: row.group }, row.group) },
      { name: "state", title: "State", cell: (row) => row.state || "–" },
      { name: "members", title: "Members that read it", number: true, cell: (row) => number(row.members) },
      { name: "partitions", title: "Partitions", number: true, low: true, cell: (row) => number(row.partitions) },
      { name: "lag", title: "Lag", number: true, cell: (row) => (row.lag === null ? "unknown" : number(row.lag)) },
    ],
    load: async (query) => {
      const found = await context.api.get(path`/topics/${name}/consumers`, query, context.signal);
      more.hidden = found.left_out === 0;
      more.textContent = `${plural(found.left_out, "further group")} of the cluster may read the topic too.`;
      return found;
    },
    empty: "No group has read this topic.",
  });
  root.append(table.element, more, h("p", { class: "muted" }, "These groups have committed an offset for the topic, or a member of them reads it now. A consumer without a group is not seen."));
}

function growthTab(root, context, name) {
  const place = h("div", { class: "card-body" });
  const when = h("span", null);
  const element = card("Size of all replicas", when, place);
  const mark = ageMark(context, element, { seconds: GROWTH_SECONDS });
  when.append(mark.element);
  root.append(element);
  every(context, GROWTH_SECONDS, async () => {
    const found = await context.api.get(path`/topics/${name}/growth`, {}, context.signal);
    mark.show(found);
    const times = { every: SAMPLE_SECONDS * 1000, until: found.as_of + found.age_ms };
    fill(place, [
      lineGraph({ label: `Size of ${name}`, series: [{ name, points: found.points }], format: bytes, kind: "bytes", area: true, ...times }),
      h("p", { class: "muted" }, "The console keeps a sample of the sizes while its pages are in use. A gap has no sample of all brokers."),
    ]);
  }, (error) => place.replaceChildren(h("p", { class: "problem" }, error.message)));
}
