// Pieces that most pages have.
import { h } from "./dom.js";

/** The head of a page: pageHead({title, crumbs: [["Topics", href]], note: element, actions: [buttons]}) */
export function pageHead({ title, crumbs = [], note = null, actions = [] }) {
  return h(
    "div", { class: "page-head" },
    h(
      "div", null,
      crumbs.length > 0 ? h("nav", { class: "crumbs", "aria-label": "Path" }, crumbs.map(([text, href]) => [h("a", { href }, text), " / "])) : null,
      h("div", { class: "row" }, h("h1", null, title), note),
    ),
    h("span", { class: "space" }),
    actions,
  );
}

/** Links to the parts of a page: tabs("configs", [["", "Partitions", href], ["configs", "Settings", href]]) */
export function tabs(current, entries) {
  return h("nav", { class: "tabs", "aria-label": "Parts of the page" }, entries.map(([name, text, href]) => h("a", { href, "aria-current": name === current ? "page" : null }, text)));
}

/** Figures: tiles([{title, value, more, kind: "good" | "warn" | "bad" | ""}]) */
export function tiles(entries) {
  return h("dl", { class: "tiles" }, entries.filter(Boolean).map(({ title, value, more, kind = "" }) => h("div", { class: `tile ${kind}` }, h("dt", null, title), h("dd", null, value, more ? h("small", null, more) : null))));
}

/** A card with a title: card("Partitions", [buttons], body) */
export function card(title, actions, ...body) {
  return h("section", { class: "card", "aria-label": title }, h("div", { class: "card-head" }, h("h2", null, title), h("span", { class: "space" }), actions), body);
}

/** A part of a page below a line with its age: aged(mark, tiles(...)) */
export function aged(mark, ...body) {
  return [h("div", { class: "age-line" }, mark.element), ...body];
}

/** A note across the page. kind: "" (a warning), "bad" or "calm". */
export function notice(kind, ...content) {
  return h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null }, content);
}

/**
 * Repeats work while the page is open and visible: every(context, 5, async () => {...}).
 * Errors are given to `failed`.
 */
export function every(context, seconds, work, failed = () => {}) {
  let timer = 0;
  let isOver = false;
  const run = async () => {
    if (!document.hidden) {
      try {
        await work();
      } catch (error) {
        if (error.name !== "AbortError") failed(error);
      }
    }
    if (!isOver) timer = setTimeout(run, seconds * 1000);
  };
  context.onLeave(() => {
    isOver = true;
    clearTimeout(timer);
  });
  return run();
}
