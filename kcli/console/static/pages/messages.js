// The records of topics: lists, live tail, one record, sending, deleting, analysis.
import { h } from "../parts/dom.js";
import { icon } from "../parts/icons.js";
import { pageHead, tabs } from "../parts/page.js";
import { dataTable } from "../parts/table.js";
import { analysisView } from "./messages/analysis.js";
import { deleteDialog, sendDialog } from "./messages/actions.js";
import { detailDialog } from "./messages/detail.js";
import { recordsView } from "./messages/records.js";

export default {
  name: "messages",
  title: "Messages",
  group: "Data",
  icon: "messages",
  key: "m",
  path: "messages/*",
  render(root, context) {
    const [topic, view = "", offset] = context.params.rest;
    if (topic === undefined) topicsPage(root, context);
    else if (/^\d+$/.test(view) && /^\d+$/.test(offset ?? "")) recordPage(root, context, topic, { partition: Number(view), offset: Number(offset) });
    else topicPage(root, context, topic, view);
  },
};

function topicsPage(root, context) {
  const table = dataTable(context, {
    label: "Topics",
    placeholder: "Search topics",
    columns: [
      { name: "name", title: "Topic", cell: (row) => h("a", { href: context.href(["messages", row.name]) }, row.name) },
    ],
    load: (query) => context.api.get("/topics", query, context.signal),
    empty: "The cluster has no topics.",
  });
  root.append(pageHead({ title: "Messages" }), h("p", { class: "muted" }, "Choose the topic whose records you want to see."), table.element);
}

/** The address of one record: the list of its topic, with the record in a dialog. */
function recordPage(root, context, topic, place) {
  topicPage(root, context, topic, "");
  detailDialog(context, topic, place, { keyFormat: "auto", valueFormat: "auto" });
}

function topicPage(root, context, topic, view) {
  context.setTitle(`Messages of ${topic}`);
  const actions = context.isReadOnly ? [] : [
    h("button", { onclick: () => deleteDialog(context, topic) }, icon("trash"), "Delete records"),
    h("button", { class: "primary", onclick: () => sendDialog(context, topic) }, icon("plus"), "Send a record"),
  ];
  root.append(
    pageHead({ title: topic, crumbs: [["Messages", context.href(["messages"])]], actions }),
    tabs(view, [
      ["", "Records", context.href(["messages", topic])],
      ["analysis", "Analysis", context.href(["messages", topic, "analysis"])],
      ["topic", "About the topic", context.href(["topics", topic])],
    ]),
    view === "analysis" ? analysisView(context, topic) : recordsView(context, topic),
  );
}
