// Jobs of Spark: streaming queries by their checkpoints, and applications by Spark's REST API.
import { h } from "../parts/dom.js";
import { age, number, plural, time } from "../parts/format.js";
import { notice, pageHead, tabs } from "../parts/page.js";
import { dataTable } from "../parts/table.js";

export default {
  name: "spark",
  title: "Spark jobs",
  group: "Jobs",
  icon: "jobs",
  key: "j",
  path: "spark/*",
  async render(root, context) {
    const [tab = ""] = context.params.rest;
    const found = await context.api.get("/spark", {}, context.signal);
    root.append(
      pageHead({ title: "Spark jobs" }),
      tabs(tab, [["", "Streaming queries", context.href(["spark"])], ["applications", "Applications", context.href(["spark", "applications"])]]),
      ...found.problems.map((each) => notice("bad", each)),
    );
    if (tab === "applications") applicationsTab(root, context, found);
    else queriesTab(root, context, found);
  },
};

function queriesTab(root, context, found) {
  if (found.checkpoints === 0) {
    root.append(notice("calm", "Start the console with ", h("code", null, "--spark-checkpoint DIR"), " to see the streaming queries of a checkpoint directory."));
    return;
  }
  const table = dataTable(context, {
    label: "Streaming queries",
    placeholder: "Search name, topic or directory",
    columns: [
      { name: "name", title: "Query", cell: (row) => h("span", { title: `${row.directory}\nquery ${row.query_id}` }, row.name) },
      { name: "lag", title: "Lag in records", number: true, cell: lag },
      { name: "topics", title: "Reads", low: true, sort: false, cell: reads },
      { name: "batch", title: "Micro-batch", number: true, low: true, cell: (row) => number(row.batch) },
      { name: "committed_ms", title: "Last commit", cell: (row) => moment(row.committed_ms) },
      { name: "planned_ms", title: "In progress since", low: true, sort: false, cell: (row) => moment(row.planned_ms) },
    ],
    load: (query) => context.api.get("/spark/queries", query, context.signal),
    empty: "The directories have no checkpoints.",
  });
  root.append(table.element);
}

function applicationsTab(root, context, found) {
  if (found.servers === 0) {
    root.append(notice("calm", "Start the console with ", h("code", null, "--spark URL"), " to see the applications of a driver (port 4040) or of a history server (port 18080)."));
    return;
  }
  const table = dataTable(context, {
    label: "Applications",
    placeholder: "Search name, id or user",
    columns: [
      { name: "name", title: "Application", cell: (row) => h("span", { title: row.id }, row.name) },
      { name: "is_running", title: "State", cell: (row) => h("span", { class: `badge ${row.is_running ? "good" : ""}` }, row.is_running ? "running" : "ended") },
      { name: "started_ms", title: "Started", cell: (row) => time(row.started_ms) },
      { name: "ended_ms", title: "Ended", low: true, sort: false, cell: (row) => time(row.ended_ms) },
      { name: "jobs", title: "Jobs", low: true, sort: false, cell: jobs },
      { name: "user", title: "User", low: true, sort: false, cell: (row) => row.user },
    ],
    load: (query) => context.api.get("/spark/applications", query, context.signal),
    empty: "Spark knows no applications.",
  });
  root.append(table.element);
}

/** The lag, or why there is none: the query has no committed micro-batch, or the cluster gives no end offset. */
function lag(row) {
  if (row.lag !== null) return number(row.lag);
  const isUnknown = row.unanswered_topics > 0 || row.topics.some((each) => each.lag === null);
  return isUnknown ? h("span", { class: "badge", title: "The cluster does not tell the end of each partition." }, "unknown") : "–";
}

function reads(row) {
  const topics = row.topics.map((each) => `${each.topic} (${plural(each.partitions, "partition")}, ${each.lag === null ? "lag unknown" : `${number(each.lag)} behind`})`);
  if (row.unanswered_topics > 0) topics.push(`${plural(row.unanswered_topics, "topic")} without an answer from the cluster`);
  if (row.hidden_topics > 0) topics.push(`${plural(row.hidden_topics, "topic")} that you may not see`);
  if (row.other_sources > 0) topics.push(plural(row.other_sources, "other source"));
  return h("span", { title: topics.join("\n") }, topics.join(", "));
}

function jobs(row) {
  if (row.running_jobs === null) return "–";
  return [`${number(row.running_jobs)} running`, row.failed_jobs > 0 ? [", ", h("span", { class: "badge bad" }, `${number(row.failed_jobs)} failed`)] : null];
}

function moment(ms) {
  return ms === null ? "–" : h("span", { title: time(ms) }, age(Date.now() - ms));
}
