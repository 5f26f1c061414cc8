// A table of rows that the server searches, sorts and cuts. Only the visible rows are in the page, and only they are
// requested, so a list of 100,000 rows is as fast as one of 20.
import { h, fill } from "./dom.js";
import { ageMark, isLost } from "./contact.js";
import { number } from "./format.js";
import { icon } from "./icons.js";

const CHUNK = 100; // rows of one request
const MARGIN = 15; // rows above and below the visible ones
const CHUNKS_KEPT = 30;
const SEARCH_PAUSE_MS = 200;
const PARTIAL_MS = 1500; // the pause before a list with missing values is asked for again
const CHANGE_MS = 1500; // the pause before a list is asked for a second time after an action
const LEAST_HEIGHT = 260; // pixels

/**
 * dataTable(context, {
 *   label: "Topics",                     the name for screen readers
 *   columns: [{name, title, number, low, sort, cell(row)}],
 *   load: (query) => context.api.get("/topics", query, context.signal),
 *   filters: [elements], actions: [elements], placeholder: "Search topics",
 *   parameters: {internal: 1},          more parameters of the first request; see setParameters
 *   empty: "No topics.", refreshSeconds: 10, searchable: true, height: "fill" or a number of rows
 * })
 * A column's `cell` returns a text or an element. `low` columns hide on narrow screens. `sort: false` means not sortable.
 * `load` gets {search, sort, order, offset, limit, fresh} and returns {total, age_ms, rows, is_partial}.
 * Returns {element, reload(fresh), setParameters(object)}. The parameters of the address keep search and sort.
 */
export function dataTable(context, options) {
  return new DataTable(context, options).handle();
}

class DataTable {
  constructor(context, options) {
    this.context = context;
    this.options = { searchable: true, refreshSeconds: 15, empty: "Nothing to show.", height: "fill", ...options };
    const [sort = "", order = "asc"] = (context.query.sort ?? "").split(" ");
    this.query = { search: context.query.search ?? "", sort, order };
    this.extra = this.options.parameters ?? {};
    this.chunks = new Map();
    this.pending = new Set();
    this.total = null;
    this.generation = 0;
    this.rowHeight = 34;
    this.build();
    this.reload();
    this.timer = setInterval(() => document.hidden || this.refresh(), this.options.refreshSeconds * 1000);
    const resized = () => this.scroll.hidden || (this.size(), this.draw());
    addEventListener("resize", resized);
    context.onLeave(() => {
      clearInterval(this.timer);
      removeEventListener("resize", resized);
    });
  }

  handle() {
    return {
      element: this.element,
      reload: (fresh = true) => this.changed(fresh),
      setParameters: (extra) => {
        this.extra = extra;
        this.reload();
      },
    };
  }

  build() {
    const { label, columns, placeholder, filters = [], actions = [], searchable } = this.options;
    this.count = h("span", { class: "count", role: "status" });
    this.note = h("span", { class: "problem" });
    this.input = h("input", {
      type: "search", class: "search", value: this.query.search, "aria-label": placeholder ?? `Search ${label}`,
      placeholder: placeholder ?? "Search", "data-search": "", autocomplete: "off", spellcheck: "false",
      oninput: () => this.searched(),
    });
    this.head = h("tr", null, columns.map((column) => this.headCell(column)));
    this.body = h("tbody");
    this.table = h("table", { "aria-label": label, "aria-rowcount": "-1" }, h("thead", null, this.head), this.body);
    this.scroll = h("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": `${label}, scrollable` }, this.table);
    this.scroll.addEventListener("scroll", () => this.draw(), { passive: true });
    this.message = h("div", { class: "loading" }, "Loading …");
    const refresh = h("button", { class: "plain icon", "aria-label": "Refresh", title: "Refresh", onclick: () => this.reload(true) }, icon("refresh"));
    this.element = h(
      "section", { class: "card table" },
      h("div", { class: "table-bar" }, searchable ? this.input : null, filters, this.count, h("span", { class: "space" }), this.note, (this.ageSlot = h("span", null)), refresh, actions),
      this.scroll, this.message,
    );
    this.scroll.hidden = true;
    this.age = ageMark(this.context, this.element, { seconds: this.options.refreshSeconds });
    this.ageSlot.append(this.age.element);
  }

  headCell(column) {
    const isSorted = this.query.sort === column.name;
    const direction = this.query.order === "desc" ? "descending" : "ascending";
    const classes = [column.number ? "number" : "", column.low ? "low" : ""].join(" ");
    const arrow = h("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (this.query.order === "desc" ? "▼" : "▲") : "");
    if (column.sort === false) {
      return h("th", { scope: "col", class: classes }, column.title || h("span", { class: "hidden-text" }, column.label ?? "Actions"));
    }
    return h("th", { scope: "col", class: classes, "aria-sort": isSorted ? direction : null }, h("button", { onclick: () => this.sortBy(column) }, column.title, arrow));
  }

  sortBy(column) {
    const isSame = this.query.sort === column.name;
    this.query.order = isSame ? (this.query.order === "desc" ? "asc" : "desc") : column.number ? "desc" : "asc";
    this.query.sort = column.name;
    const index = this.options.columns.indexOf(column);
    fill(this.head, this.options.columns.map((each) => this.headCell(each)));
    this.head.children[index].querySelector("button").focus();
    this.remember();
    this.reload();
  }

  searched() {
    clearTimeout(this.searchTimer);
    this.searchTimer = setTimeout(() => {
      this.query.search = this.input.value.trim();
      this.remember();
      this.reload();
    }, SEARCH_PAUSE_MS);
  }

  remember() {
    const sort = this.query.sort ? `${this.query.sort} ${this.query.order}` : "";
    this.context.setQuery({ search: this.query.search, sort });
  }

  /** Shows the result of an action. Brokers apply a change a moment after its answer, so the list is read twice. */
  async changed(fresh) {
    clearTimeout(this.changeTimer);
    this.changeTimer = setTimeout(() => this.context.signal.aborted || this.refresh(fresh), CHANGE_MS);
    await this.reload(fresh);
  }

  /** Starts again from the first row. */
  async reload(fresh = false) {
    this.scroll.scrollTop = 0;
    await this.refresh(fresh);
  }

  /** Asks again for the visible rows. */
  async refresh(fresh = false) {
    this.generation += 1;
    this.pending.clear();
    const first = Math.floor(this.visible()[0] / CHUNK);
    const found = await this.request(first, this.generation, fresh);
    if (found === null) return;
    this.chunks.clear();
    this.keep(first, found);
  }

  async request(chunk, generation, fresh = false) {
    this.pending.add(chunk);
    try {
      const query = { ...this.query, ...this.extra, offset: chunk * CHUNK, limit: CHUNK, fresh: fresh ? 1 : "" };
      const found = await this.options.load(query);
      return generation === this.generation ? found : null;
    } catch (error) {
      if (error.name !== "AbortError" && generation === this.generation) this.failed(error);
      return null;
    } finally {
      if (generation === this.generation) this.pending.delete(chunk);
    }
  }

  keep(chunk, found) {
    this.chunks.set(chunk, found.rows);
    while (this.chunks.size > CHUNKS_KEPT) this.chunks.delete(this.chunks.keys().next().value);
    this.total = found.total;
    clearTimeout(this.partialTimer);
    if (found.is_partial || (found.stale && !isLost())) this.partialTimer = setTimeout(() => this.context.signal.aborted || this.refresh(), PARTIAL_MS);
    this.count.textContent = `${number(found.total)} ${found.total === 1 ? "row" : "rows"}`;
    this.age.show(found);
    this.note.textContent = "";
    this.table.setAttribute("aria-rowcount", String(found.total + 1));
    this.scroll.hidden = found.total === 0;
    this.message.hidden = found.total > 0;
    this.message.className = "empty";
    this.message.textContent = this.query.search ? "Nothing matches the search." : this.options.empty;
    requestAnimationFrame(() => {
      this.size();
      this.draw();
    });
  }

  failed(error) {
    if (this.total !== null) {
      this.note.textContent = isLost() ? "" : error.message; // the notice above the page tells the rest
      this.note.title = "The rows below are from before this error.";
      return;
    }
    this.message.className = "empty problem";
    this.message.textContent = error.message;
  }

  /** Gives the rows the height that is left in the window, so that only one thing scrolls. */
  size() {
    const rows = this.options.height === "fill" ? 1e9 : this.options.height;
    const main = this.scroll.closest("main");
    const top = main ? this.scroll.getBoundingClientRect().top + main.scrollTop : 230;
    const left = Math.max(LEAST_HEIGHT, innerHeight - top - 34);
    this.scroll.style.maxHeight = `${Math.min(rows * this.rowHeight + 36, left)}px`;
  }

  visible() {
    const top = Math.floor(this.scroll.scrollTop / this.rowHeight);
    const count = Math.ceil((this.scroll.clientHeight || 600) / this.rowHeight);
    const last = this.total === null ? CHUNK : this.total;
    return [Math.max(0, Math.min(top, last - 1) - MARGIN), Math.min(last, top + count + MARGIN)];
  }

  draw() {
    const [from, to] = this.visible();
    this.want(from, to);
    const rows = [this.spacer(from)];
    for (let index = from; index < to; index += 1) rows.push(this.row(index));
    rows.push(this.spacer(Math.max(0, this.total - to)));
    const focused = this.body.contains(document.activeElement) ? this.place(document.activeElement) : null;
    fill(this.body, rows);
    if (focused !== null) this.focus(focused);
    const first = this.body.querySelector("tr[aria-rowindex]");
    const height = first?.getBoundingClientRect().height;
    if (height && Math.abs(height - this.rowHeight) > 0.5) {
      this.rowHeight = height;
      this.draw();
    }
  }

  want(from, to) {
    for (let chunk = Math.floor(from / CHUNK); chunk * CHUNK < to; chunk += 1) {
      if (this.chunks.has(chunk) || this.pending.has(chunk)) continue;
      const generation = this.generation;
      this.request(chunk, generation).then((found) => found && this.keep(chunk, found));
    }
  }

  row(index) {
    const row = this.chunks.get(Math.floor(index / CHUNK))?.[index % CHUNK];
    const cells = this.options.columns.map((column) =>
      h("td", { class: [column.number ? "number" : "", column.low ? "low" : ""].join(" ") }, row ? column.cell(row) : null),
    );
    return h("tr", { "aria-rowindex": index + 2, class: row ? null : "waiting" }, cells);
  }

  spacer(rows) {
    const line = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: this.options.columns.length }));
    line.style.height = `${rows * this.rowHeight}px`;
    line.hidden = rows <= 0;
    return line;
  }

  /** Where the focus is, so that it survives a redraw: the row, and the element in it. */
  place(element) {
    const row = element.closest("tr");
    return { row: row.getAttribute("aria-rowindex"), index: [...row.querySelectorAll("a, button, input")].indexOf(element) };
  }

  focus({ row, index }) {
    const line = this.body.querySelector(`tr[aria-rowindex="${row}"]`);
    line?.querySelectorAll("a, button, input")[index]?.focus({ preventScroll: true });
  }
}

/** A small table of rows that are all here. columns: [{title, number, cell(row)}] */
export function plainTable(label, columns, rows, empty = "Nothing to show.") {
  if (rows.length === 0) return h("div", { class: "empty" }, empty);
  return h(
    "div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": label },
    h(
      "table", { class: "plain", "aria-label": label },
      h("thead", null, h("tr", null, columns.map((column) => h("th", { scope: "col", class: column.number ? "number" : null }, column.title)))),
      h("tbody", null, rows.map((row) => h("tr", null, columns.map((column) => h("td", { class: column.number ? "number" : null }, column.cell(row)))))),
    ),
  );
}
