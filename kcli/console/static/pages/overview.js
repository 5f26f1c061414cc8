// The first page: figures, traffic, and the findings of the check-up with the commands that repair them.
import { add, fill, h } from "../parts/dom.js";
import { age, bytes, number, plural } from "../parts/format.js";
import { commandLine } from "../parts/dialog.js";
import { lineGraph } from "../parts/graph.js";
import { icon } from "../parts/icons.js";
import { ageMark, freshPart, isLost, silentCount } from "../parts/contact.js";
import { card, every, notice, pageHead, tiles } from "../parts/page.js";

const FIGURES_SECONDS = 5;
const TRAFFIC_SECONDS = 5;
const SIZES_WAIT_MS = 1500;
const CHECKUP_WAIT_MS = 1500;
const CHECKUP_SECONDS = 3600; // the findings are read once, and again if the user asks
const IDS_MAX = 5; // ids of brokers that a tile shows
const KINDS = { critical: "bad", warning: "warn", advice: "accent", unknown: "" };

export default {
  name: "overview",
  title: "Overview",
  group: "Cluster",
  icon: "overview",
  key: "o",
  path: "overview",
  async render(root, context) {
    const first = await context.api.get("/overview", {}, context.signal);
    const note = h("span", { class: "muted", title: "The id of the cluster" }, first.cluster_id);
    const problem = h("div", { hidden: true });
    const figures = freshPart(context, {
      seconds: FIGURES_SECONDS,
      first,
      load: async () => {
        const found = await context.api.get("/overview", {}, context.signal);
        problem.hidden = true;
        return found;
      },
      draw: (found) => figureTiles(context, found),
      failed: (error) => {
        fill(problem, notice("bad", `The figures are old: ${error.message}`));
        problem.hidden = isLost(); // the notice above the page tells the rest
      },
    });
    root.append(pageHead({ title: "Overview", note }), problem, figures.element);
    if (first.has_traffic) root.append(traffic(context));
    root.append(checkup(context));
    // The sizes need requests to every broker. They follow soon, and so does a new answer in place of an old one.
    if (first.sizes === null || first.stale) setTimeout(() => context.signal.aborted || figures.reload().catch(() => {}), SIZES_WAIT_MS);
  },
};

function figureTiles(context, found) {
  const link = (parts, query, text) => h("a", { href: context.href(parts, query) }, text);
  const sizes = found.sizes;
  const share = sizes?.total_bytes ? sizes.usable_bytes / sizes.total_bytes : 1;
  return tiles([
    health(found, link),
    brokers(found, link),
    { title: "Topics", value: link(["topics"], {}, number(found.topics)), more: `and ${number(found.internal_topics)} internal` },
    { title: "Partitions", value: number(found.partitions), more: leaders(found) },
    { title: "Size", value: bytes(sizes?.records_bytes ?? null), more: sizeNote(sizes) },
    sizes?.total_bytes ? { title: "Fullest disk", value: `${Math.round((1 - share) * 100)} %`, more: `${bytes(sizes.usable_bytes)} free`, kind: share < 0.1 ? "bad" : share < 0.2 ? "warn" : "" } : null,
    sizes?.failed_directories ? { title: "Failed directories", value: link(["brokers"], {}, number(sizes.failed_directories)), kind: "bad" } : null,
  ]);
}

function sizeNote(sizes) {
  const missing = sizes?.without.length > 0 ? `without broker ${sizes.without.slice(0, IDS_MAX).join(", ")}` : "all replicas";
  return sizes?.stale ? `${missing}, ${age(sizes.age_ms)}` : missing;
}

function health(found, link) {
  const title = "State";
  const [value, kind] = state(found);
  if (isLost()) return { title, value: "No answer", more: `last known: ${value}` };
  if (kind === "good" && silentCount() > 0) return { title, value, more: "by the controller, which has not noticed the silence yet" };
  return { title, value, kind, more: kind === "good" ? "every partition" : link(["topics"], { problems: 1 }, "Show the topics") };
}

function state(found) {
  if (found.offline > 0) return [`${number(found.offline)} offline`, "bad"];
  if (found.under_replicated > 0) return [`${number(found.under_replicated)} under-replicated`, "warn"];
  return ["In sync", "good"];
}

function brokers(found, link) {
  const value = link(["brokers"], {}, number(found.brokers));
  if (isLost()) return { title: "Brokers", value, more: "known, and none of them answers" };
  if (silentCount() > 0) return { title: "Brokers", value, more: `${plural(silentCount(), "server does", "servers do")} not answer`, kind: "bad" };
  if (found.fenced.length === 0) return { title: "Brokers", value, more: `controller ${found.controller < 0 ? "unknown" : found.controller}` };
  return { title: "Brokers", value, more: `no heartbeats from ${found.fenced.slice(0, IDS_MAX).join(", ")}${found.fenced.length > IDS_MAX ? " …" : ""}`, kind: "bad" };
}

/** {check: "min-isr", subject: "orders"} becomes "Min isr: orders". */
function title({ check, subject }) {
  const name = check.charAt(0).toUpperCase() + check.slice(1).replaceAll("-", " ");
  return subject === "cluster" ? name : `${name}: ${subject}`;
}

const leaders = (found) => (found.leaders_least === found.leaders_most ? `${number(found.leaders_most)} led by each broker` : `${number(found.leaders_least)} to ${number(found.leaders_most)} led by a broker`);

function traffic(context) {
  const place = h("div", { class: "card-body form" });
  const when = h("span", null);
  const element = card("Traffic", when, place);
  const mark = ageMark(context, element, { seconds: TRAFFIC_SECONDS });
  when.append(mark.element);
  every(context, TRAFFIC_SECONDS, async () => {
    const found = await context.api.get("/traffic", {}, context.signal);
    const { series, missing } = found;
    mark.show(found);
    const rate = (value) => `${bytes(value)}/s`;
    const times = { every: TRAFFIC_SECONDS * 1000, until: found.as_of + found.age_ms };
    fill(place, [
      missing > 0 ? notice("", `${plural(missing, "metrics endpoint does", "metrics endpoints do")} not answer. The sums are without them.`) : null,
      lineGraph({ label: "Bytes in and out", series: [{ name: "in", points: series.bytes_in }, { name: "out", points: series.bytes_out }], format: rate, kind: "bytes", height: 150, ...times }),
      h("h3", null, "Records in, per second"),
      lineGraph({ label: "Records in per second", series: [{ name: "records", points: series.messages_in }], format: (value) => number(Math.round(value)), height: 120, ...times }),
    ]);
  }, (error) => fill(place, h("p", { class: "problem" }, error.message)));
  return element;
}

function checkup(context) {
  const list = h("div", { "aria-live": "polite" }, h("div", { class: "loading" }, "The check-up runs …"));
  const when = h("span", { class: "row" });
  const state = h("span", { class: "muted" });
  const again = h("button", { onclick: () => run(1) }, icon("refresh"), "Check again");
  let timer = 0;
  context.onLeave(() => clearTimeout(timer));
  const run = async (fresh) => {
    clearTimeout(timer);
    again.disabled = true;
    try {
      const found = await context.api.get("/checkup", { fresh: fresh ? 1 : "" }, context.signal);
      if (found.findings) fill(list, found.error ? notice("bad", found.error) : findings(found.findings));
      if (found.findings) mark.show(found);
      state.textContent = found.is_running ? "runs …" : "";
      if (found.is_running) timer = setTimeout(() => run(0), CHECKUP_WAIT_MS);
      else again.disabled = false;
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(list, notice("bad", error.message));
      again.disabled = false;
    }
  };
  const element = card("Check-up", [when, again], list);
  const mark = ageMark(context, element, { seconds: CHECKUP_SECONDS });
  add(when, [state, mark.element]);
  run(0);
  return element;
}

function findings(found) {
  if (found.length === 0) return h("div", { class: "empty" }, "The check-up found no problem.");
  return h("ul", { class: "findings" }, found.map((each) => h(
    "li", null,
    h("span", { class: `badge ${KINDS[each.severity] ?? ""}` }, each.severity),
    h(
      "div", null,
      h("h3", null, title(each)),
      h("p", null, each.text),
      each.evidence.length + each.command.length > 0 ? h(
        "details", null,
        h("summary", null, each.command ? "Evidence and command" : "Evidence"),
        each.evidence.length > 0 ? h("ul", null, each.evidence.map((line) => h("li", null, line))) : null,
        each.command ? commandLine(each.command) : null,
      ) : null,
    ),
  )));
}
