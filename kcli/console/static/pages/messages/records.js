// The list of records: where it begins, a filter, formats, and the live tail.
import { fill, h } from "../../parts/dom.js";
import { path } from "../../parts/api.js";
import { ageMark } from "../../parts/contact.js";
import { commandLine, openDialog } from "../../parts/dialog.js";
import { bytes, number, plural, time } from "../../parts/format.js";
import { icon } from "../../parts/icons.js";
import { detailDialog } from "./detail.js";
import { shortField } from "./fields.js";
import { savedDialog } from "./saved.js";

const ROWS_MAX = 1000; // rows in the page; a live tail drops the oldest
const FORMATS = [["auto", "Detect"], ["json", "JSON"], ["text", "Text"], ["hex", "Hex"], ["schema", "By schema id"]];
const STARTS = [["latest", "Newest first"], ["earliest", "Oldest first"], ["offset", "From an offset"], ["time", "From a time"]];
const REASONS = {
  records: "It stopped after many records.",
  bytes: "It stopped after many bytes.",
  time: "It stopped after 30 seconds.",
};
const EXAMPLES = [
  ["value.order.amount > 10 && headers[\"source\"] == \"web\"", "a field of the value, and a header"],
  ["key == \"user-7\" || key startsWith \"admin\"", "the key as text"],
  ["value contains \"timeout\"", "a text anywhere in the value"],
  ["value matches \"(?i)error [0-9]+\"", "a regular expression (RE2)"],
  ["value.items[*].sku == \"A-1\"", "any element of a list"],
  ["value == null", "tombstones"],
  ["timestamp >= \"2026-05-01T12:00:00Z\" && partition == 3", "time (UTC) and partition"],
  ["size(value) > 100000", "large values"],
];

export function recordsView(context, topic) {
  return new Records(context, topic).element;
}

class Records {
  constructor(context, topic) {
    this.context = context;
    this.topic = topic;
    this.api = path`/topics/${topic}/messages`;
    this.stream = null;
    this.cursor = null;
    this.rows = [];
    this.build();
    context.onLeave(() => this.stream?.close());
    this.search();
  }

  build() {
    const query = this.context.query;
    const choice = (name, label, options, value) => {
      const select = h("select", { id: `records-${name}`, onchange: () => this.chosen(name) }, options.map(([each, text]) => h("option", { value: each }, text)));
      select.value = options.some(([each]) => each === value) ? value : options[0][0];
      return field(name, label, select);
    };
    const field = (name, label, input) => {
      this[name] = input;
      return h("div", { class: `field records-${name}` }, h("label", { for: `records-${name}` }, label), input);
    };
    const input = (name, label, properties) => field(name, label, h("input", { id: `records-${name}`, autocomplete: "off", spellcheck: "false", ...properties }));
    this.searchButton = h("button", { class: "primary" }, "Search");
    this.liveButton = h("button", { type: "button", onclick: () => (this.isLive ? this.stop() : this.follow()) }, icon("play"), "Live");
    this.status = h("p", { class: "muted records-status", role: "status" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.form = h(
      "form", { class: "records-form", role: "search", "aria-label": "Search records" },
      choice("start", "Begin", STARTS, query.start),
      input("offset", "Offset", { type: "number", min: 0, value: query.start === "offset" ? query.value : "0" }),
      input("moment", "Time", { type: "datetime-local", step: 1, value: query.start === "time" ? local(Number(query.value)) : local(Date.now() - 3600000) }),
      input("partitions", "Partitions", { placeholder: "all", pattern: "\\s*\\d+(\\s*,\\s*\\d+)*\\s*", title: "Numbers with commas, such as 0,3", value: query.partitions ?? "" }),
      choice("keyFormat", "Keys", FORMATS, query.key_format),
      choice("valueFormat", "Values", FORMATS, query.value_format),
      choice("limit", "Records", [["50", "50"], ["100", "100"], ["500", "500"]], query.limit),
      h("div", { class: "field records-filter" }, h("label", { for: "records-filter" }, "Filter"), h("div", { class: "row" }, (this.filter = h("input", { id: "records-filter", class: "mono", "data-search": "", maxlength: 4096, autocomplete: "off", spellcheck: "false", placeholder: "value.order.amount > 10", value: query.filter ?? "" })), h("button", { type: "button", class: "plain icon", "aria-label": "Help about filters", title: "Help about filters", onclick: () => this.help() }, icon("help")), h("button", { type: "button", class: "plain icon", "aria-label": "Saved filters", title: "Saved filters", onclick: () => this.saved() }, icon("bookmark")))),
      h("label", { class: "row records-committed" }, (this.committed = h("input", { type: "checkbox", checked: query.committed === "1" })), "Only committed"),
      h("div", { class: "row records-buttons" }, this.searchButton, this.liveButton),
    );
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.search();
    });
    this.body = h("tbody");
    this.message = h("div", { class: "empty" });
    this.moreButton = h("button", { hidden: true, onclick: () => this.more() }, "More");
    this.downloadButton = h("button", { class: "plain", onclick: () => this.download() }, icon("download"), "Download");
    this.commandButton = h("button", { class: "plain", hidden: true, onclick: () => openDialog("On the command line", [commandLine(this.command)]) }, "Command line");
    const heads = [["Partition", "number low"], ["Offset", "number"], ["Time", ""], ["Key", ""], ["Value", ""]];
    this.table = h(
      "div", { class: "table-scroll records-table", tabindex: "0", role: "region", "aria-label": "Records, scrollable" },
      h("table", { "aria-label": "Records" }, h("thead", null, h("tr", null, heads.map(([text, name]) => h("th", { scope: "col", class: name }, text)))), this.body),
    );
    this.element = h(
      "section", { class: "card table" }, this.form,
      h("div", { class: "table-bar" }, this.status, h("span", { class: "space" }), (this.ageSlot = h("span", null)), this.commandButton, this.downloadButton),
      this.problem, this.table, this.message, h("div", { class: "row records-more" }, this.moreButton),
    );
    this.age = ageMark(this.context, this.element, { seconds: Infinity }); // a record does not change
    this.ageSlot.append(this.age.element);
    this.chosen();
  }

  /** Shows only the fields that the choice of the beginning needs. */
  chosen(name) {
    this.offset.parentElement.hidden = this.start.value !== "offset";
    this.moment.parentElement.hidden = this.start.value !== "time";
    if (["keyFormat", "valueFormat"].includes(name) && this.rows.length > 0 && !this.isLive) this.search();
  }

  parameters() {
    const start = this.start.value;
    const value = start === "offset" ? this.offset.value || "0" : start === "time" ? String(new Date(this.moment.value).getTime() || 0) : "";
    return {
      start, value,
      partitions: this.partitions.value.replace(/\s/g, ""),
      filter: this.filter.value.trim(),
      limit: this.limit.value,
      key_format: this.keyFormat.value,
      value_format: this.valueFormat.value,
      committed: this.committed.checked ? "1" : "",
    };
  }

  get isLive() {
    return this.liveButton.classList.contains("is-live");
  }

  begin(parameters) {
    this.stream?.close();
    this.problem.hidden = true;
    const usual = { start: "latest", limit: "50", key_format: "auto", value_format: "auto" };
    this.context.setQuery(Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, value === usual[name] ? "" : value])));
  }

  search() {
    if (!this.form.reportValidity()) return;
    if (this.isLive) this.stop();
    const parameters = this.parameters();
    this.begin(parameters);
    this.cursor = null;
    this.clear("Searching …");
    this.read(parameters);
  }

  more() {
    this.moreButton.hidden = true;
    this.read({ ...this.parameters(), shown: this.rows.length, cursor: Object.entries(this.cursor).map(([partition, offset]) => `${partition}:${offset}`).join(",") });
  }

  read(parameters) {
    this.searchButton.disabled = true;
    this.table.setAttribute("aria-busy", "true");
    const ended = () => {
      this.searchButton.disabled = false;
      this.table.removeAttribute("aria-busy");
    };
    this.stream = this.context.api.events(this.api, parameters, {
      message: (data) => this.append(data.rows),
      progress: (data) => this.say(`Searched ${counted(data)} …`),
      done: (data) => {
        ended();
        this.done(data);
      },
      error: (error) => {
        ended();
        this.failed(error);
      },
    }, this.context.signal);
  }

  done(data) {
    this.age.show({});
    this.cursor = data.cursor;
    this.command = data.command;
    this.commandButton.hidden = !data.command;
    this.moreButton.hidden = data.reason === "end";
    const unknown = data.unknown > 0 ? ` The filter could not examine ${plural(data.unknown, "record")}, because they are too large.` : "";
    this.say(`${plural(this.rows.length, "record")}. Searched ${counted(data)}. ${REASONS[data.reason] ?? ""}${unknown}`);
    if (this.rows.length === 0) this.message.textContent = data.reason === "end" ? (this.filter.value.trim() ? "No record matches." : "There are no records here.") : "No record matches yet. Press More to search further.";
    const errors = Object.entries(data.errors ?? {});
    if (errors.length > 0) this.failed({ message: `Some partitions cannot be read: ${errors.slice(0, 3).map(([partition, text]) => `${partition}: ${text}`).join("; ")}` });
  }

  follow() {
    if (!this.form.reportValidity()) return;
    const parameters = this.parameters();
    this.begin(parameters);
    this.clear("Waiting for new records …");
    this.moreButton.hidden = true;
    this.commandButton.hidden = true;
    this.showLive(true);
    this.dropped = 0;
    this.stream = this.context.api.events(`${this.api}/tail`, parameters, {
      message: (data) => this.prepend(data.rows),
      dropped: (data) => { this.dropped = data.total; },
      progress: (data) => {
        const left = data.dropped > 0 ? ` Left out ${plural(data.dropped, "record")}, because the topic is faster than this page.` : "";
        this.say(`Live: ${plural(data.records, "new record")} seen.${left}`);
        this.problem.textContent = data.problem ? `Some partitions do not answer: ${data.problem}. The page tries again.` : "";
        this.problem.hidden = !data.problem;
      },
      error: (error) => {
        this.showLive(false);
        this.failed(error);
      },
    }, this.context.signal);
  }

  stop() {
    this.stream?.close();
    this.showLive(false);
    this.say(`Paused. ${plural(this.rows.length, "record")} shown.${this.dropped > 0 ? ` Left out ${plural(this.dropped, "record")}.` : ""}`);
  }

  showLive(isLive) {
    this.liveButton.classList.toggle("is-live", isLive);
    fill(this.liveButton, icon(isLive ? "stop" : "play"), isLive ? "Pause" : "Live");
  }

  say(text) {
    this.status.textContent = text;
  }

  failed(error) {
    this.problem.textContent = error.message;
    this.problem.hidden = false;
    if (this.rows.length === 0) this.message.textContent = "";
    this.say("");
  }

  clear(text) {
    this.rows = [];
    this.body.replaceChildren();
    this.table.hidden = true;
    this.message.hidden = false;
    this.message.textContent = text;
    this.moreButton.hidden = true;
    this.say("");
  }

  append(rows) {
    this.shown();
    this.rows.push(...rows);
    this.body.append(...rows.map((row) => this.line(row)));
  }

  prepend(rows) {
    this.shown();
    const newest = [...rows].reverse();
    this.rows.unshift(...newest);
    this.rows.length = Math.min(this.rows.length, ROWS_MAX);
    this.body.prepend(...newest.map((row) => this.line(row)));
    while (this.body.children.length > ROWS_MAX) this.body.lastElementChild.remove();
  }

  shown() {
    this.table.hidden = false;
    this.message.hidden = true;
  }

  line(row) {
    const open = () => detailDialog(this.context, this.topic, row, { keyFormat: this.keyFormat.value, valueFormat: this.valueFormat.value });
    return h(
      "tr", { class: "record", onclick: (event) => event.target.closest("button") || getSelection().toString() || open() },
      h("td", { class: "number low" }, number(row.partition)),
      h("td", { class: "number" }, h("button", { class: "link", "aria-label": `Record at offset ${row.offset} of partition ${row.partition}`, onclick: open }, number(row.offset))),
      h("td", { class: "time" }, h("span", { class: "low" }, `${time(row.timestamp).slice(0, 10)} `), time(row.timestamp).slice(11)),
      h("td", { class: "record-key" }, shortField(row.key)),
      h("td", { class: "record-cell" }, shortField(row.value)),
    );
  }

  async download() {
    const parameters = this.parameters();
    try {
      await this.context.api.get("/messages/filter", { filter: parameters.filter }, this.context.signal);
    } catch (error) {
      this.failed(error);
      return;
    }
    delete parameters.limit;
    const link = h("a", { href: this.context.api.address(`${this.api}/download`, parameters), download: "" });
    link.click();
  }

  use(filter) {
    this.filter.value = filter;
    this.filter.focus();
  }

  saved() {
    savedDialog(this.context.cluster, this.filter.value.trim(), (filter) => this.use(filter));
  }

  help() {
    const use = (text) => {
      dialog.close();
      this.use(text);
    };
    const dialog = openDialog("Filters", [
      h("p", null, "A filter chooses records by their key, value, headers, offset, partition and timestamp. It runs on the server, and only this small language is understood."),
      h("dl", { class: "facts filter-examples" }, EXAMPLES.map(([text, meaning]) => [h("dt", null, h("button", { class: "link mono", onclick: () => use(text) }, text)), h("dd", null, meaning)])),
      h("p", { class: "muted" }, "Operators: == != < <= > >= contains startsWith endsWith matches && || ! ( ). A missing field is null. Press an example to use it."),
    ], [], { wide: true });
  }
}

const counted = (data) => `${plural(data.records, "record")} (${bytes(data.bytes)})`;

/** A time for an input of the browser, in its own time zone. */
function local(ms) {
  const date = new Date(Number.isFinite(ms) ? ms : 0);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}
