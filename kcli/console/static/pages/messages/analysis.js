// Figures about a whole topic. The console reads the topic once, while the page is open.
import { fill, h } from "../../parts/dom.js";
import { path } from "../../parts/api.js";
import { bytes, duration, number, plural, time } from "../../parts/format.js";
import { lineGraph } from "../../parts/graph.js";
import { ageMark } from "../../parts/contact.js";
import { aged, card, notice, tiles } from "../../parts/page.js";
import { plainTable } from "../../parts/table.js";

const HOUR_MS = 3600000;
const HOURS_SHOWN = 24 * 14;

export function analysisView(context, topic) {
  const committed = h("input", { type: "checkbox", id: "analysis-committed" });
  const button = h("button", { class: "primary", onclick: () => (stream === null ? run() : stop("Stopped.")) }, "Analyse");
  const bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Progress of the analysis" });
  const status = h("span", { class: "muted", role: "status" });
  const result = h("div", { class: "page" });
  const mark = ageMark(context, result, { seconds: Infinity }); // the figures of a finished analysis do not change
  let stream = null;

  const stop = (text) => {
    stream?.close();
    stream = null;
    button.textContent = "Analyse";
    bar.hidden = true;
    status.textContent = text;
  };
  const run = () => {
    result.replaceChildren();
    button.textContent = "Stop";
    bar.hidden = false;
    bar.value = 0;
    status.textContent = "Reading …";
    const parameters = { start: "earliest", committed: committed.checked ? "1" : "" };
    stream = context.api.events(path`/topics/${topic}/analysis`, parameters, {
      progress(data) {
        bar.value = data.total_offsets > 0 ? data.offsets / data.total_offsets : 1;
        status.textContent = `Read ${plural(data.records, "record")} (${bytes(data.bytes)}), ${Math.floor(bar.value * 100)} %`;
      },
      done(data) {
        stop(`Read ${plural(data.records, "record")} (${bytes(data.bytes)} as stored).`);
        mark.show({});
        fill(result, aged(mark, figures(data)));
      },
      error: (error) => {
        stop("");
        fill(result, notice("bad", error.message));
      },
    }, context.signal);
  };
  context.onLeave(() => stream?.close());
  return h(
    "div", { class: "page" },
    h("section", { class: "card" }, h("div", { class: "table-bar" }, button, h("label", { class: "row", for: "analysis-committed" }, committed, "Only committed"), bar, status)),
    h("p", { class: "muted" }, "The analysis reads every record of the topic once: its keys, sizes and times. It ends if you leave this page."),
    result,
  );
}

function figures(data) {
  const found = data.figures;
  const share = (count) => (found.records > 0 ? `${((100 * count) / found.records).toFixed(1)} % of the records` : null);
  const problems = Object.entries(data.errors);
  return [
    data.is_complete ? null : notice("", "The analysis ended before the end of the topic."),
    problems.length > 0 ? notice("bad", `Some partitions could not be read: ${problems.slice(0, 3).map(([partition, text]) => `${partition}: ${text}`).join("; ")}`) : null,
    tiles([
      { title: "Records", value: number(found.records) },
      { title: "Bytes of the values", value: bytes(found.value_sizes.total), more: `keys: ${bytes(found.key_sizes.total)}` },
      { title: "Different keys", value: `≈ ${number(found.distinct_keys)}` },
      { title: "Different values", value: `≈ ${number(found.distinct_values)}` },
      { title: "Null keys", value: number(found.null_keys), more: share(found.null_keys) },
      { title: "Tombstones", value: number(found.tombstones), more: share(found.tombstones) },
      { title: "Headers", value: number(found.headers) },
      { title: "Time", value: found.first_timestamp === null ? "–" : duration(found.last_timestamp - found.first_timestamp), more: found.first_timestamp === null ? null : `${time(found.first_timestamp).slice(0, 16)} to ${time(found.last_timestamp).slice(0, 16)}` },
    ]),
    hours(found),
    card("Sizes", null, plainTable("Sizes", [
      { title: "", cell: (row) => row.name },
      ...[["Mean", "mean"], ["50 %", "p50"], ["75 %", "p75"], ["95 %", "p95"], ["99 %", "p99"], ["Largest", "max"]].map(([title, name]) => ({ title, number: true, cell: (row) => bytes(row.sizes[name]) })),
    ], [{ name: "Keys", sizes: found.key_sizes }, { name: "Values", sizes: found.value_sizes }])),
    card("Partitions", null, plainTable("Partitions", [
      { title: "Partition", number: true, cell: (row) => number(row.partition) },
      { title: "First offset", number: true, cell: (row) => number(row.start) },
      { title: "End", number: true, cell: (row) => number(row.end) },
      { title: "Records", number: true, cell: (row) => number(row.records) },
    ], data.partitions)),
  ];
}

function hours(found) {
  if (found.hours.length === 0) return null;
  const counts = new Map(found.hours);
  const last = found.hours.at(-1)[0];
  const first = Math.max(found.hours[0][0], last - HOURS_SHOWN * HOUR_MS);
  const points = [];
  for (let hour = first; hour <= last; hour += HOUR_MS) points.push([hour, counts.get(hour) ?? 0]);
  if (points.length < 2) return null;
  const title = `Records an hour, ${time(first).slice(0, 16)} to ${time(last).slice(0, 16)}`;
  return card(title, null, h("div", { class: "card-body" }, lineGraph({ label: title, series: [{ name: "records", points }], area: true })));
}
