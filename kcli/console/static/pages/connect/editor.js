// The configuration of a connector: a form from the keys of its plugin, or JSON. The worker validates what is typed.
import { h, fill } from "../../parts/dom.js";
import { path } from "../../parts/api.js";
import { actionDialog } from "../../parts/dialog.js";
import { notice, pageHead } from "../../parts/page.js";
import { plainTable } from "../../parts/table.js";

const PAUSE_MS = 400; // between the last key that is pressed and the validation
const HIDDEN = "[hidden]"; // in place of a stored secret, which stays
const HINT_CHARACTERS = 160;
const CLASS = "connector.class";
const OWN = "Connector"; // the group of keys that belong to the plugin alone

/** The page that creates a connector. */
export async function createPage(root, context, worker) {
  const { plugins } = await context.api.get(path`/connect/${worker}/plugins`, {}, context.signal);
  root.append(
    pageHead({ title: "New connector", crumbs: [["Connectors", context.href(["connect"])]] }),
    context.isReadOnly ? notice("calm", "The console runs with --read-only.") : new Editor(context, worker, { name: "", config: {}, plugins, isNew: true }).element,
  );
}

/** The configuration of a connector that exists. */
export async function configPage(root, context, worker, name) {
  const { config } = await context.api.get(path`/connect/${worker}/connectors/${name}/config`, {}, context.signal);
  const columns = [
    { title: "Key", cell: ([key]) => h("span", { class: "mono" }, key) },
    { title: "Value", cell: ([, value]) => h("span", { class: "mono" }, value) },
  ];
  root.append(context.isReadOnly ? plainTable("Configuration", columns, Object.entries(config)) : new Editor(context, worker, { name, config, plugins: [], isNew: false }).element);
}

class Editor {
  constructor(context, worker, { name, config, plugins, isNew }) {
    this.context = context;
    this.api = path`/connect/${worker}/configs`;
    this.worker = worker;
    this.isNew = isNew;
    this.name = name;
    this.config = { ...config };
    this.keys = [];
    this.first = new Map(); // the keys that are shown at first sight, which stay where they are
    this.open = new Set(); // the groups with all their keys
    this.fields = new Map();
    this.sent = 0;
    this.build(plugins);
    context.onLeave(() => clearTimeout(this.timer));
    this.validate();
  }

  build(plugins) {
    this.summary = h("p", { role: "status" });
    this.body = h("div", { class: "form" });
    this.view = h("select", { "aria-label": "View", onchange: () => this.draw() }, h("option", { value: "form" }, "Form"), h("option", { value: "json" }, "JSON"));
    const nameInput = h("input", { "aria-label": "Name", placeholder: "Name", autocomplete: "off", spellcheck: "false", oninput: () => { this.name = nameInput.value; this.later(); } });
    const plugin = h(
      "select", { "aria-label": "Plugin", onchange: () => { this.set(CLASS, plugin.value); this.validate(); } },
      h("option", { value: "" }, "Choose a plugin"), plugins.map((each) => h("option", { value: each.class }, `${each.class} (${each.type})`)),
    );
    this.save = h("button", { class: "primary", onclick: () => this.ask() }, "Save");
    this.element = h(
      "section", { class: "card", "aria-label": "Configuration" },
      h("div", { class: "table-bar" }, this.isNew ? [nameInput, plugin] : null, this.view, h("span", { class: "space" }), this.save),
      h("div", { class: "card-body form" }, this.summary, this.body),
    );
  }

  set(key, value) {
    if (value === "") delete this.config[key];
    else this.config[key] = value;
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.validate(), PAUSE_MS);
  }

  /** Asks the worker about the present values. An answer that is older than the last question is left out. */
  async validate() {
    clearTimeout(this.timer);
    if (this.isNew && (!this.name || !this.config[CLASS])) {
      this.summary.textContent = "Type a name and choose a plugin.";
      if (!this.config[CLASS]) return;
    }
    const number = (this.sent += 1);
    try {
      const outcome = await this.context.api.post(this.api, { name: this.name || "unnamed", config: this.config, preview: true });
      if (number === this.sent && !this.context.signal.aborted) this.answered(outcome);
    } catch (error) {
      if (number === this.sent) this.tell(error.message, true);
    }
  }

  answered({ summary, details }) {
    if (!this.isNew || this.name) this.tell(summary, details.errors.length > 0);
    const before = this.keys.map((each) => each.name).join();
    if (details.keys.length > 0) this.keys = details.keys;
    if (this.view.value === "form" && before !== this.keys.map((each) => each.name).join()) this.draw();
    else if (this.body.childElementCount === 0) this.draw();
    for (const key of this.keys) this.showErrors(key);
  }

  tell(text, isBad) {
    this.summary.textContent = text;
    this.summary.className = isBad ? "problem" : "";
  }

  draw() {
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    this.fields.clear();
    fill(this.body, this.view.value === "json" ? this.json() : this.form());
    const again = this.fields.get(focused?.name)?.input;
    again?.focus({ preventScroll: true });
    if (again?.type === "text") again.setSelectionRange(focused.selectionStart, focused.selectionEnd);
    for (const key of this.keys) this.showErrors(key);
  }

  json() {
    const { name: _, ...config } = this.config;
    const area = h("textarea", { "aria-label": "Configuration as JSON", rows: 20, spellcheck: "false", class: "mono", value: JSON.stringify(config, null, 2), oninput: () => this.read(area.value) });
    return area;
  }

  read(text) {
    try {
      const found = JSON.parse(text);
      if (found === null || typeof found !== "object" || Array.isArray(found)) throw new SyntaxError("expected an object");
      this.config = Object.fromEntries(Object.entries(found).filter(([, value]) => value !== null).map(([key, value]) => [key, String(value)]));
      this.save.disabled = false;
      this.later();
    } catch (error) {
      this.save.disabled = true;
      clearTimeout(this.timer);
      this.tell(`This is not JSON: ${error.message}`, true);
    }
  }

  form() {
    const shown = this.keys.filter((each) => each.name !== "name" && !(this.isNew && each.name === CLASS));
    const groups = [...new Set(shown.map((each) => each.group))].sort((a, b) => (b === OWN) - (a === OWN));
    return groups.map((group) => {
      const keys = shown.filter((each) => each.group === group);
      const more = keys.filter((each) => !this.isFirst(each));
      const first = keys.filter((each) => this.isFirst(each));
      return [
        first.length > 0 ? h("h2", null, group) : null,
        first.map((each) => this.field(each)),
        more.length > 0 ? this.more(group, more) : null,
      ];
    });
  }

  /** The keys of a group that few people need. They stay open when the form is drawn again. */
  more(group, keys) {
    const toggled = () => (element.open ? this.open.add(group) : this.open.delete(group));
    const element = h("details", { open: this.open.has(group), ontoggle: toggled }, h("summary", null, `More keys of ${group}`), h("div", { class: "form" }, keys.map((each) => this.field(each))));
    return element;
  }

  isFirst(key) {
    if (!this.first.has(key.name)) this.first.set(key.name, key.is_required || key.importance === "HIGH" || key.name in this.config);
    return this.first.get(key.name);
  }

  field(key) {
    const id = `key-${this.fields.size}`;
    const problem = h("span", { class: "problem", id: `${id}-problem`, hidden: true });
    const hint = key.documentation.length > HINT_CHARACTERS ? `${key.documentation.slice(0, HINT_CHARACTERS)}…` : key.documentation;
    const input = this.input(key, id);
    this.fields.set(key.name, { input, problem });
    return h(
      "div", { class: "field" },
      h("label", { for: id }, key.name, key.is_required ? " (required)" : ""), input,
      key.recommended.length > 0 && key.type !== "BOOLEAN" ? h("datalist", { id: `${id}-values` }, key.recommended.map((each) => h("option", { value: each }))) : null,
      problem, hint ? h("span", { class: "hint", id: `${id}-hint`, title: key.documentation }, hint) : null,
    );
  }

  input(key, id) {
    const value = this.config[key.name] ?? "";
    const common = { id, name: key.name, "aria-describedby": `${id}-problem${key.documentation ? ` ${id}-hint` : ""}` };
    if (key.type === "BOOLEAN") {
      const select = h("select", { ...common, onchange: () => this.changed(key, select.value) }, h("option", { value: "" }, `default (${key.default ?? "none"})`), ["true", "false"].map((each) => h("option", { value: each }, each)));
      select.value = value;
      return select;
    }
    const isStored = value === HIDDEN;
    const input = h("input", {
      ...common, type: key.is_secret ? "password" : "text", autocomplete: key.is_secret ? "new-password" : "off", spellcheck: "false",
      list: key.recommended.length > 0 ? `${id}-values` : null, value: isStored ? "" : value,
      placeholder: isStored ? "hidden: the stored value stays" : (key.default ?? ""),
      oninput: () => this.changed(key, isStored && input.value === "" ? HIDDEN : input.value),
    });
    return input;
  }

  changed(key, value) {
    this.set(key.name, value);
    this.later();
  }

  showErrors(key) {
    const field = this.fields.get(key.name);
    if (!field) return;
    const isUntouched = this.isNew && key.is_required && !(key.name in this.config);
    const text = isUntouched ? "" : key.errors.join(" ");
    field.problem.textContent = text;
    field.problem.hidden = text === "";
    field.input.setAttribute("aria-invalid", String(text !== ""));
  }

  ask() {
    const name = this.name;
    actionDialog(this.context, {
      title: `Save the connector ${name}`,
      path: this.api,
      body: () => ({ name, config: this.config, is_new: this.isNew }),
      verb: "Save",
      wide: true,
      show: ({ details }) => (details.errors.length > 0 ? notice("bad", h("ul", null, details.errors.map((each) => h("li", null, each)))) : null),
      done: () => this.context.go(["connect", this.worker, name]),
    });
  }
}
