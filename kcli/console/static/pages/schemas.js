// The schemas of a registry: the subjects, one subject with its versions, their differences, and a new version.
import { h, fill } from "../parts/dom.js";
import { path } from "../parts/api.js";
import { number, plural } from "../parts/format.js";
import { actionDialog } from "../parts/dialog.js";
import { card, notice, pageHead, tabs } from "../parts/page.js";
import { dataTable } from "../parts/table.js";

const PAUSE_MS = 400; // between the last key that is pressed and the check
const REFRESH_SECONDS = 30;
const TYPES = ["AVRO", "JSON", "PROTOBUF"];
const WORDS = { " ": "equal", "-": "removed", "+": "added" };

export default {
  name: "schemas",
  title: "Schemas",
  group: "Schemas",
  icon: "schemas",
  key: "s",
  path: "schemas/*",
  async render(root, context) {
    const [subject, tab = ""] = context.params.rest;
    if (context.query.id) await findPage(root, context, context.query.id);
    else if (subject === undefined) await listPage(root, context);
    else await subjectPage(root, context, subject, tab);
  },
};

const subjectLink = (context, subject, version) => h("a", { href: context.href(["schemas", subject], version ? { version } : {}), class: "mono" }, subject);

async function listPage(root, context) {
  const { registry, level, mode } = await context.api.get("/schemas", {}, context.signal);
  root.append(pageHead({ title: "Schemas" }));
  if (registry === null) {
    root.append(notice("calm", "Start the console with ", h("code", null, "--schema-registry URL"), " to see the schemas of a registry."));
    return;
  }
  root.append(settings(level, mode, h("span", { class: "muted" }, registry)));
  if (!context.isReadOnly) root.append(createForm(context));
  root.append(dataTable(context, {
    label: "Subjects",
    placeholder: "Search subjects",
    refreshSeconds: REFRESH_SECONDS,
    columns: [
      { name: "subject", title: "Subject", cell: (row) => subjectLink(context, row.subject) },
      { name: "version", title: "Latest version", number: true, sort: false, cell: (row) => (row.problem ? h("span", { class: "problem" }, row.problem) : number(row.version)) },
      { name: "id", title: "Id", number: true, sort: false, low: true, cell: (row) => row.id },
      { name: "type", title: "Type", sort: false, cell: (row) => row.type },
      { name: "level", title: "Level", sort: false, low: true, cell: (row) => row.level },
    ],
    load: (query) => context.api.get("/schemas/subjects", query, context.signal),
    empty: "The registry has no subjects.",
  }).element);
}

/** The level and the mode that count here. */
function settings(level, mode, ...more) {
  return h(
    "p", { class: "row" },
    "Compatibility", h("span", { class: "badge accent" }, level ?? "unknown"),
    "Mode", h("span", { class: `badge ${mode === null || mode === "READWRITE" ? "" : "warn"}` }, mode ?? "unknown"), more,
  );
}

function createForm(context) {
  const name = h("input", { "aria-label": "Name of a new subject", placeholder: "orders-value", autocomplete: "off", spellcheck: "false" });
  const go = (event) => {
    event.preventDefault();
    if (name.value) context.go(["schemas", name.value, "new"]);
  };
  return h("form", { class: "row", onsubmit: go }, name, h("button", { type: "submit" }, "New subject"));
}

/** The versions that have an id, for the links of messages. One version is shown at once. */
async function findPage(root, context, id) {
  const { versions } = await context.api.get(path`/schemas/ids/${id}`, {}, context.signal);
  if (versions.length === 1) {
    context.go(["schemas", versions[0].subject], { version: versions[0].version });
    return;
  }
  root.append(
    pageHead({ title: `Schema ${id}`, crumbs: [["Schemas", context.href(["schemas"])]] }),
    h("p", null, `${plural(versions.length, "version")} of the registry`, versions.length === 1 ? " has this schema." : " have this schema."),
    h("ul", null, versions.map((each) => h("li", null, subjectLink(context, each.subject, each.version), ` version ${each.version}`))),
  );
}

async function subjectPage(root, context, subject, tab) {
  context.setTitle(`Subject ${subject}`);
  const head = pageHead({ title: subject, crumbs: [["Schemas", context.href(["schemas"])]] });
  const found = await subjectOrNone(context, subject, tab);
  root.append(head);
  if (found === null) {
    root.append(notice("calm", "The registry does not have this subject yet."), new Editor(context, subject, { type: "AVRO", text: "", references: [] }).element);
    return;
  }
  root.append(
    settings(found.level, found.mode, found.policy === null ? null : h("span", { class: "badge" }, found.policy), h("span", { class: "muted" }, plural(found.versions.length, "version"))),
    tabs(tab, [
      ["", "Schema", context.href(["schemas", subject])],
      ["diff", "Differences", context.href(["schemas", subject, "diff"])],
      context.isReadOnly ? null : ["new", "New version", context.href(["schemas", subject, "new"])],
    ].filter(Boolean)),
  );
  if (tab === "diff") await differenceTab(root, context, subject, found.versions);
  else if (tab === "new" && !context.isReadOnly) root.append(new Editor(context, subject, await version(context, subject, "latest")).element);
  else await schemaTab(root, context, subject, found.versions);
}

/** The subject, or null for a new subject, which only the tab of a new version shows. */
async function subjectOrNone(context, subject, tab) {
  try {
    return await context.api.get(path`/schemas/subjects/${subject}`, {}, context.signal);
  } catch (error) {
    if (tab === "new" && error.status === 404) return null;
    throw error;
  }
}

const version = (context, subject, of) => context.api.get(path`/schemas/subjects/${subject}/versions/${of}`, {}, context.signal);

function chooser(label, versions, chosen, changed) {
  const select = h("select", { "aria-label": label, onchange: () => changed(select.value) }, versions.map((each) => h("option", { value: each }, `version ${each}`)));
  select.value = String(chosen);
  return select;
}

async function schemaTab(root, context, subject, versions) {
  const place = h("div");
  const show = async (chosen) => {
    context.setQuery({ version: chosen });
    try {
      fill(place, schemaCard(context, await version(context, subject, chosen)));
    } catch (error) {
      if (error.name !== "AbortError") fill(place, notice("bad", error.message));
    }
  };
  const first = context.query.version ?? versions[0];
  root.append(h("p", { class: "row" }, chooser("Version", versions, first, show)), place);
  await show(first);
}

function schemaCard(context, schema) {
  const facts = [
    ["Id", schema.id],
    ["Guid", schema.guid],
    ["Type", schema.type],
    ["Refers to", schema.references.length > 0 ? schema.references.map((each) => h("div", null, h("span", { class: "mono" }, each.name), ": ", subjectLink(context, each.subject, each.version), ` version ${each.version}`)) : null],
    ["Used by", schema.used_by.length > 0 ? [schema.used_by.map((each) => h("div", null, subjectLink(context, each.subject, each.version), ` version ${each.version}`)), schema.used_by_count > schema.used_by.length ? h("div", { class: "muted" }, `${number(schema.used_by_count)} schemas in all`) : null] : null],
    ["Metadata", schema.metadata && h("code", null, JSON.stringify(schema.metadata))],
    ["Rules", schema.rules && h("code", null, JSON.stringify(schema.rules))],
  ].filter(([, value]) => value !== null && value !== undefined);
  return card(
    `Version ${schema.version}`, null,
    h("div", { class: "card-body" }, h("dl", { class: "facts" }, facts.map(([title, value]) => [h("dt", null, title), h("dd", null, value)])), h("pre", { tabindex: "0", class: "schema-text" }, schema.text)),
  );
}

async function differenceTab(root, context, subject, versions) {
  const place = h("div");
  const query = { from: context.query.from ?? versions[1] ?? versions[0], to: context.query.to ?? versions[0] };
  const show = async (more) => {
    Object.assign(query, more);
    context.setQuery(query);
    try {
      const found = await context.api.get(path`/schemas/subjects/${subject}/diff`, query, context.signal);
      fill(place, differences(found));
    } catch (error) {
      if (error.name !== "AbortError") fill(place, notice("bad", error.message));
    }
  };
  root.append(
    h("p", { class: "row" }, chooser("Older version", versions, query.from, (from) => show({ from })), "to", chooser("Newer version", versions, query.to, (to) => show({ to }))),
    place,
  );
  await show({});
}

function differences({ lines, from, to }) {
  if (lines.length === 0) return notice("calm", `The versions ${from.version} and ${to.version} are equal.`);
  return h(
    "ol", { class: "diff", "aria-label": "Lines", tabindex: "0" },
    lines.map((each) => h("li", { class: WORDS[each.change] }, each.change === " " ? null : h("span", { class: "hidden-text" }, `${WORDS[each.change]}: `), h("code", null, each.line || " "))),
  );
}

/** The text of a new version. The registry checks what is typed. */
class Editor {
  constructor(context, subject, { type, text, references }) {
    this.context = context;
    this.references = references;
    this.api = path`/schemas/subjects/${subject}/versions`;
    this.subject = subject;
    this.sent = 0;
    this.type = h("select", { "aria-label": "Type", onchange: () => this.check() }, TYPES.map((each) => h("option", { value: each }, each)));
    this.type.value = type;
    this.area = h("textarea", { "aria-label": "Schema", rows: 18, spellcheck: "false", class: "mono", value: text, oninput: () => this.later() });
    this.result = h("div", { class: "form", role: "status" });
    this.save = h("button", { class: "primary", disabled: true, onclick: () => this.ask() }, "Register");
    this.element = card(
      "New version", [this.type, this.save],
      h("div", { class: "card-body form" }, this.result, this.area, references.length > 0 ? h("p", { class: "muted" }, `The schema keeps the references of the latest version: ${references.map((each) => each.name).join(", ")}.`) : null),
    );
    context.onLeave(() => clearTimeout(this.timer));
    if (text) this.check();
  }

  body() {
    return { schema: this.area.value, type: this.type.value, references: this.references };
  }

  later() {
    clearTimeout(this.timer);
    this.save.disabled = true;
    this.timer = setTimeout(() => this.check(), PAUSE_MS);
  }

  /** Asks the registry about the present text. An answer that is older than the last question is left out. */
  async check() {
    clearTimeout(this.timer);
    const question = (this.sent += 1);
    if (!this.area.value.trim()) {
      this.save.disabled = true;
      fill(this.result, h("p", { class: "muted" }, "Type a schema."));
      return;
    }
    try {
      const outcome = await this.context.api.post(this.api, { ...this.body(), preview: true });
      if (question === this.sent && !this.context.signal.aborted) this.show(outcome);
    } catch (error) {
      if (question !== this.sent) return;
      this.save.disabled = true;
      fill(this.result, h("p", { class: "problem" }, error.message));
    }
  }

  show({ summary, details }) {
    this.save.disabled = !details.is_compatible || details.present !== null;
    fill(this.result, h("p", { class: details.is_compatible ? "" : "problem" }, summary), details.reasons.map(reason));
  }

  ask() {
    const body = this.body();
    actionDialog(this.context, {
      title: `Register a version of ${this.subject}`,
      path: this.api,
      body: () => body,
      verb: "Register",
      done: () => this.context.go(["schemas", this.subject]),
    });
  }
}

function reason({ text, broken, cure, version: of }) {
  return h(
    "div", { class: "notice bad" },
    h("div", null, h("p", null, of ? h("strong", null, `Version ${of}: `) : null, text, broken ? `. So ${broken}.` : ""), cure ? h("p", null, cure) : null),
  );
}
