// The trace of a record: where its time went, and all spans as a tree with bars.
import { h } from "../parts/dom.js";
import { path } from "../parts/api.js";
import { commandLine } from "../parts/dialog.js";
import { number } from "../parts/format.js";
import { card, notice, pageHead } from "../parts/page.js";
import { plainTable } from "../parts/table.js";

const INDENT = "\u00a0\u00a0\u00a0";

export default {
  name: "trace",
  title: "Trace",
  path: "trace/:id",
  async render(root, context) {
    const { topic, partition, offset } = context.query;
    const title = topic ? `Trace of ${topic}-${partition}, offset ${offset}` : "Trace";
    const crumbs = topic && context.hasPage("messages") ? [["Messages", context.href(["messages", topic])]] : [];
    context.setTitle(title);
    root.append(pageHead({ title, crumbs }));
    let found;
    try {
      found = await context.api.get(path`/traces/${context.params.id}`, { topic, partition, offset }, context.signal);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      root.append(notice("bad", error.message));
      return;
    }
    if (found.steps.length > 0) root.append(card("The time of this record", [], stepsTable(found.steps)));
    else root.append(notice("calm", "No span names this record: it was sent in the same trace as other records."));
    if (found.count > found.spans.length) root.append(notice("", `The first ${number(found.spans.length)} of ${number(found.count)} spans are shown.`));
    root.append(
      card("Spans", [], spansTable(found)),
      commandLine(found.command),
    );
  },
};

function stepsTable(steps) {
  const columns = [
    { title: "Step", cell: (row) => row.name.replace(/^ +/, INDENT) },
    { title: "Service", cell: (row) => row.service || "–" },
    { title: "Time", number: true, cell: (row) => microseconds(row.duration_us) },
  ];
  return plainTable("Steps", columns, steps);
}

function spansTable(found) {
  const columns = [
    { title: "Span", cell: (row) => [INDENT.repeat(row.depth), h("span", { title: details(row) }, row.name), mark(row)] },
    { title: "Service", low: true, cell: (row) => row.service },
    { title: "Start", number: true, cell: (row) => `+${microseconds(row.after_us)}` },
    { title: "Duration", number: true, cell: (row) => microseconds(row.duration_us) },
    { title: "Time line", cell: (row) => timeBar(row, found.total_us) },
  ];
  return plainTable("All spans of the trace", columns, found.spans);
}

function mark(row) {
  return [
    row.is_record ? [" ", h("span", { class: "badge" }, "this record")] : null,
    row.is_error ? [" ", h("span", { class: "badge bad" }, row.attributes["error.type"] || "error")] : null,
  ];
}

function details(row) {
  return Object.entries(row.attributes).map(([name, value]) => `${name} = ${value}`).join("\n");
}

/** The place of a span in the time of its trace. */
function timeBar(row, total) {
  const width = 160;
  const scale = total > 0 ? width / total : 0;
  return h(
    "svg", { viewBox: `0 0 ${width} 10`, width, height: 10, class: "time-bar", "aria-hidden": "true" },
    h("rect", { x: 0, y: 4, width, height: 2, fill: "currentColor", opacity: 0.2 }),
    h("rect", { x: row.after_us * scale, y: 1, width: Math.max(1, row.duration_us * scale), height: 8, fill: "currentColor" }),
  );
}

function microseconds(value) {
  for (const [unit, size] of [["s", 1e6], ["ms", 1e3]]) if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  return `${value.toFixed(value >= 10 ? 0 : 1)} µs`;
}
