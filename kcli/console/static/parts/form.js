// Forms from a list of fields.
import { h } from "./dom.js";

let last = 0;

/**
 * form([
 *   {name: "topic", label: "Name", required: true, hint: "…", pattern: "…", value: "", placeholder: ""},
 *   {name: "partitions", label: "Partitions", type: "number", min: 1, max: 1000, value: 6},
 *   {name: "policy", label: "Policy", options: ["delete", {value: "compact", label: "Compact"}]},
 *   {name: "force", label: "Force", type: "checkbox"},
 *   {name: "value", label: "Value", type: "textarea", rows: 4},
 *   {name: "x", label: "X", element: anyElement, read: () => value},
 * ])
 * Returns {element, values(), check(), input(name)}. An empty number is left out.
 */
export function form(fields) {
  const inputs = new Map();
  const rows = fields.filter(Boolean).map((field) => fieldRow(field, inputs));
  // The hidden button lets Enter submit the form.
  const element = h("form", { class: "form" }, rows, h("button", { hidden: true, tabindex: "-1" }));
  element.addEventListener("submit", (event) => event.preventDefault());
  return {
    element,
    input: (name) => inputs.get(name)?.input,
    check: () => element.reportValidity(),
    values() {
      const found = {};
      for (const [name, { field, input }] of inputs) {
        const value = read(field, input);
        if (value !== undefined) found[name] = value;
      }
      return found;
    },
  };
}

function read(field, input) {
  if (field.read) return field.read();
  if (field.type === "checkbox") return input.checked;
  if (field.type === "number") return input.value === "" ? undefined : Number(input.value);
  return input.value;
}

function fieldRow(field, inputs) {
  const id = `field-${(last += 1)}`;
  const hint = field.hint ? h("span", { class: "hint", id: `${id}-hint` }, field.hint) : null;
  const input = field.element ?? control(field, id, hint);
  if (field.element && !field.element.id) field.element.id = id;
  inputs.set(field.name, { field, input });
  const label = h("label", { for: input.id }, field.label);
  if (field.type === "checkbox") return h("div", { class: "field check" }, input, label, hint);
  return h("div", { class: "field" }, label, input, hint);
}

function control(field, id, hint) {
  const common = { id, name: field.name, required: field.required, "aria-describedby": hint ? `${id}-hint` : null };
  if (field.options) {
    const choices = field.options.map((each) => (typeof each === "string" ? { value: each, label: each } : each));
    const select = h("select", common, choices.map((each) => h("option", { value: each.value }, each.label)));
    if (field.value !== undefined) select.value = field.value;
    return select;
  }
  if (field.type === "textarea") {
    return h("textarea", { ...common, rows: field.rows ?? 4, spellcheck: "false", placeholder: field.placeholder, value: field.value ?? "" });
  }
  if (field.type === "checkbox") return h("input", { ...common, type: "checkbox", checked: field.value ?? false });
  return h("input", {
    ...common, type: field.type ?? "text", min: field.min, max: field.max, step: field.step, pattern: field.pattern,
    placeholder: field.placeholder, maxlength: field.maxlength, autocomplete: field.autocomplete ?? "off", spellcheck: "false",
    value: field.value ?? "",
  });
}
