// Whether the cluster answers, and the age of everything on a page. Old values turn grey, so that a page never shows
// the values of a dead cluster as new ones.
import { fill, h } from "./dom.js";
import { age, time } from "./format.js";
import { aged, every, notice } from "./page.js";

const POLL_MS = 2000;
const TICK_MS = 1000;
const CONSOLE = { is_console: true, servers: [] };
const NAMES_MAX = 5; // silent servers that the notice names
const SAME_MS = 5000; // two times of the same failure differ less

const banner = h("div", { class: "contact", "aria-live": "assertive", hidden: true });
const marks = new Set();
const listeners = new Set();
let frame = null;
let silence = null; // what the last answer said of the servers that do not answer
let since = 0; // the time of the last answer, on the clock of the browser
let shown = "";
let timer = 0;

/** The element above each page that names the servers that do not answer. `parent` turns grey if none answers. */
export function contactBanner(parent) {
  frame = parent;
  setInterval(tick, TICK_MS);
  return banner;
}

/** Asks again and again whether the cluster of a page answers, while the page is visible. */
export function watchContact(api) {
  clearTimeout(timer);
  hear(null);
  const ask = async () => {
    if (!document.hidden) await api.get("/contact").catch(() => {});
    timer = setTimeout(ask, POLL_MS);
  };
  if (api) ask();
}

/** Takes note of an answer, or of the error of a request that got none. */
export function hearAnswer(found) {
  if (found && "unreachable" in found) hear(found.unreachable);
}

export function hearConsole(error) {
  if (error.status === 0 && !silence?.is_console) hear(CONSOLE);
}

/** Whether no server of the cluster answers now, or not even the console. */
export const isLost = () => silence !== null && (silence.is_console || silence.is_whole);

/** The number of servers that do not answer now. */
export const silentCount = () => silence?.servers.length ?? 0;

/** Calls back when the cluster is lost or found, until the page is left. */
export function onContact(context, callback) {
  listeners.add(callback);
  context.onLeave(() => listeners.delete(callback));
}

function hear(found) {
  const before = [isLost(), silentCount()].join();
  const from = Date.now() - (found?.for_ms ?? 0);
  if (silence === null || found?.is_console !== silence.is_console || Math.abs(from - since) > SAME_MS) since = from;
  silence = found;
  frame?.classList.toggle("no-answer", isLost());
  tick();
  if (before !== [isLost(), silentCount()].join()) for (const callback of listeners) callback();
}

function tick() {
  for (const each of marks) each();
  const text = silence === null ? "" : words();
  if (text === shown) return; // a screen reader reads each change aloud
  shown = text;
  banner.hidden = text === "";
  fill(banner, text === "" ? null : notice(isLost() ? "bad" : "", text));
}

function words() {
  const at = time(since).slice(11, 19);
  if (silence.is_console) return `The console does not answer since ${at}. Does it still run? The page shows old values.`;
  const names = silence.servers.slice(0, NAMES_MAX).map((each) => `${each.name} (${each.reason})`).join(", ") + (silence.servers.length > NAMES_MAX ? " …" : "");
  if (silence.is_whole) return `No answer from the cluster since ${at}: ${names}. The page shows old values.`;
  return `No answer since ${at}: ${names}.`;
}

/**
 * The age of a part of the page. `element` turns grey if its values are older than they should be:
 *   const mark = ageMark(context, element, {seconds: 5})     a new answer is expected each 5 seconds
 *   mark.show(answer)                                        an answer with age_ms and stale
 *   mark.element                                             "3 s ago"
 */
export function ageMark(context, element, { seconds }) {
  const text = h("span", { class: "age", title: "The age of the cluster's answer" });
  const limit = seconds * 2000 + 10000;
  let at = null;
  let heard = 0;
  let isStale = false;
  element.classList.add("aged");
  const update = () => {
    if (at === null) return;
    const now = performance.now();
    const isOld = isStale || now - heard > limit;
    element.classList.toggle("is-old", isOld);
    text.textContent = `${isOld || isLost() ? "old: " : ""}${age(now - at)}`;
  };
  marks.add(update);
  context.onLeave(() => marks.delete(update));
  return {
    element: text,
    show(found) {
      heard = performance.now();
      at = heard - (found.age_ms ?? 0);
      isStale = found.stale ?? false;
      update();
    },
  };
}

/**
 * A part of a page that is read again and again, with its age above it:
 *   freshPart(context, {seconds: 5, first, load: () => context.api.get(...), draw: (found) => [elements]})
 * Returns {element, reload()}. It is also drawn again when the cluster is lost or found. `failed` gets errors.
 */
export function freshPart(context, { seconds, first, load, draw, failed }) {
  const element = h("div", { class: "page" });
  const mark = ageMark(context, element, { seconds });
  let found = first;
  let isFirst = true;
  const show = () => fill(element, aged(mark, draw(found)));
  const take = (answer) => {
    found = answer;
    mark.show(answer);
    show();
  };
  const reload = async () => take(await load());
  take(first);
  onContact(context, show);
  every(context, seconds, async () => {
    if (!isFirst) await reload();
    isFirst = false;
  }, failed);
  return { element, reload };
}
