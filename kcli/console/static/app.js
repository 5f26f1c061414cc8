// The frame of the console: the menu, the choice of the cluster, and the page of the present address.
import { add, fill, h } from "./parts/dom.js";
import { clusterApi, loadSession, logOut, whenLoginNeeded } from "./parts/api.js";
import { contactBanner, watchContact } from "./parts/contact.js";
import { icon } from "./parts/icons.js";
import { listenToKeys, showKeys } from "./parts/keyboard.js";
import { loginCard } from "./parts/login.js";
import { href, match, parse } from "./parts/router.js";
import { notice } from "./parts/page.js";
import { isDark, toggle } from "./parts/theme.js";
import { toast } from "./parts/toast.js";
import { groups, pages } from "./pages/index.js";

const SESSION_SECONDS = 60;
const RETRY_SECONDS = 5;

const app = document.getElementById("app");
let session = null;
let leave = () => {};

const menu = h("nav", { class: "side", id: "menu", "aria-label": "Pages" });
const choice = h("div", { class: "cluster-choice" });
const user = h("div", { class: "row" });
const main = h("main", { id: "main", tabindex: "-1" });
const content = h("div", { class: "content" });
const menuButton = h("button", { class: "plain icon menu-button", "aria-label": "Menu", "aria-controls": "menu", "aria-expanded": "false", onclick: () => openMenu(!frame.classList.contains("menu-open")) }, icon("menu"));
const themeButton = h("button", { class: "plain icon", onclick: switchTheme });
const frame = h(
  "div", { class: "frame" },
  h(
    "header", { class: "top" },
    menuButton,
    h("a", { class: "brand", href: "#/" }, h("img", { src: "static/icon.svg", alt: "kcli console, start" }), h("span", { "aria-hidden": "true" }, "kcli")),
    choice, h("span", { class: "space" }), user,
    h("button", { class: "plain icon wide", "aria-label": "Keys", title: "Keys (?)", onclick: () => showKeys(goes()) }, icon("help")),
    themeButton,
  ),
  menu, content,
);
content.append(contactBanner(frame), main);

function switchTheme() {
  toggle();
  showTheme();
}

function showTheme() {
  themeButton.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  themeButton.title = isDark() ? "Light colours" : "Dark colours";
  fill(themeButton, icon(isDark() ? "sun" : "moon"));
}

function openMenu(isOpen) {
  frame.classList.toggle("menu-open", isOpen);
  menuButton.setAttribute("aria-expanded", String(isOpen));
  if (isOpen) menu.querySelector("a")?.focus();
}

const first = () => pages.find((page) => page.group);
const goes = () => pages.filter((page) => page.key).map((page) => ({ key: page.key, title: page.title, go: () => { location.hash = href(current().name, start(page)); } }));
const start = (page) => page.path.split("/").filter((part) => part !== "*" && !part.startsWith(":"));

function current() {
  const { cluster } = parse(location.hash);
  return session.clusters.find((each) => each.name === cluster) ?? session.clusters[0];
}

function drawMenu(cluster, page) {
  fill(menu, groups.map((group) => {
    const found = pages.filter((each) => each.group === group);
    if (found.length === 0) return null;
    return [
      h("h2", null, group),
      h("ul", null, found.map((each) => h("li", null, h("a", { href: href(cluster.name, start(each)), "aria-current": each === page || each.name === page?.parent ? "page" : null }, icon(each.icon), each.title, each.key ? h("kbd", { "aria-hidden": "true" }, `g ${each.key}`) : null)))),
    ];
  }));
}

function drawTop(cluster) {
  if (session.clusters.length > 1) {
    const select = h("select", { "aria-label": "Cluster", onchange: () => { location.hash = href(select.value, parse(location.hash).parts.slice(0, 1)); } }, session.clusters.map((each) => h("option", { value: each.name }, each.name)));
    select.value = cluster.name;
    fill(choice, select);
  } else fill(choice, h("span", { title: cluster.servers }, cluster.name));
  add(choice, [session.read_only ? h("span", { class: "badge", title: "The console runs with --read-only: it shows, but changes nothing." }, "read-only") : null]);
  fill(user, userPart(cluster));
}

function userPart(cluster) {
  if (cluster.state === "user") {
    return [h("span", { class: "row wide" }, icon("user"), cluster.user), h("button", { onclick: () => leaveCluster(cluster) }, "Log out")];
  }
  if (cluster.state === "given") {
    const title = "The console uses the login of its settings file, because this browser opened the printed address on this machine.";
    return [h("span", { class: "badge accent", title }, `acts as ${cluster.user}`), cluster.can_log_in ? h("button", { class: "plain wide", onclick: () => showLogin(cluster) }, "Log in as another user") : null];
  }
  return null;
}

async function leaveCluster(cluster) {
  try {
    session = await logOut(cluster.name);
  } catch (error) {
    toast(error.message, "bad");
  }
  show();
}

function showLogin(cluster) {
  leave();
  fill(main, loginCard(cluster, (found) => {
    session = found;
    show();
  }));
}

/** Shows the page of the present address. */
async function show() {
  leave();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close(); // it belongs to the page before
  openMenu(false);
  const { cluster: name, parts, query } = parse(location.hash);
  const cluster = current();
  if (name !== cluster.name || parts.length === 0) {
    location.replace(href(cluster.name, name === cluster.name || name === "" ? start(first()) : parts, query));
    return;
  }
  const found = match(pages, parts);
  drawTop(cluster);
  drawMenu(cluster, found?.page);
  watch(cluster);
  const root = h("div", { hidden: true });
  if (cluster.state === "login") {
    document.title = `Log in · ${cluster.name} · kcli`;
    if (cluster.can_log_in) showLogin(cluster);
    else fill(main, notice("bad", "This cluster serves only the browser that opened the address which kcli console printed at its start."));
    return;
  }
  if (found === null) {
    fill(main, h("h1", null, "This page does not exist"), h("p", null, h("a", { href: href(cluster.name, start(first())) }, "Go to the first page")));
    return;
  }
  await render(found, cluster, query, root);
}

let watched = null;

/** Watches whether the cluster of the page answers. Without a login, the console cannot ask the cluster. */
function watch(cluster) {
  const name = cluster.state === "login" ? null : cluster.name;
  if (name === watched) return;
  watched = name;
  watchContact(name === null ? null : clusterApi(name));
}

async function render({ page, params }, cluster, query, root) {
  const context = makeContext(cluster, page, params, query);
  context.setTitle(page.title);
  root.className = "page";
  fill(main, h("div", { class: "loading", role: "status" }, "Loading …"));
  const timer = setTimeout(() => context.signal.aborted || reveal(root), 150);
  try {
    await page.render(root, context);
  } catch (error) {
    if (error.name === "AbortError" || context.signal.aborted) return;
    root.replaceChildren(h("h1", null, page.title), notice("bad", error.message), h("p", null, h("button", { onclick: show }, icon("refresh"), "Try again")));
    if (error.isPassing) context.onLeave(clearTimeout.bind(null, setTimeout(show, RETRY_SECONDS * 1000)));
  }
  clearTimeout(timer);
  if (!context.signal.aborted) reveal(root);
}

function reveal(root) {
  root.hidden = false;
  if (root.childElementCount > 0 && root.parentElement !== main) {
    fill(main, root);
    main.scrollTop = 0;
    if (document.activeElement === document.body) main.focus({ preventScroll: true });
  }
}

function makeContext(cluster, page, params, query) {
  const controller = new AbortController();
  const callbacks = [];
  leave = () => {
    leave = () => {};
    controller.abort();
    for (const callback of callbacks) callback();
  };
  return {
    cluster: cluster.name,
    info: cluster,
    params,
    query,
    api: clusterApi(cluster.name),
    signal: controller.signal,
    hasPage: (name) => pages.some((each) => each.name === name),
    isReadOnly: session.read_only,
    href: (parts, more) => href(cluster.name, parts, more),
    go: (parts, more) => { location.hash = href(cluster.name, parts, more); },
    reload: show,
    onLeave: (callback) => callbacks.push(callback),
    setTitle: (title) => { document.title = `${title} · ${cluster.name} · kcli`; },
    setQuery(more) {
      const { parts, query: before } = parse(location.hash);
      if (!controller.signal.aborted) history.replaceState(null, "", href(cluster.name, parts, { ...before, ...more }));
    },
  };
}

async function begin() {
  showTheme();
  fill(app, frame);
  try {
    session = await loadSession();
  } catch (error) {
    fill(main, notice("bad", error.message), h("p", null, h("button", { onclick: begin }, "Try again")));
    return;
  }
  whenLoginNeeded(async () => {
    session = await loadSession();
    show();
  });
  addEventListener("hashchange", show);
  listenToKeys(goes);
  // The address behind # belongs to the pages, so the link must not change it.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && openMenu(false));
  main.addEventListener("click", () => openMenu(false));
  // A request from time to time keeps the session of an open page.
  setInterval(() => document.hidden || loadSession().then((found) => { session = found; }).catch(() => {}), SESSION_SECONDS * 1000);
  await show();
}

begin();
