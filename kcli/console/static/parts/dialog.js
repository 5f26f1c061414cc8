// Dialogs. An action is shown before it is done: what changes, and the command line that does the same.
import { h, fill } from "./dom.js";
import { icon } from "./icons.js";
import { toast } from "./toast.js";

let last = 0;

/** Opens a dialog: openDialog("Title", [elements], [buttons], {wide}). Returns {element, close()}. */
export function openDialog(title, body, buttons = [], { wide = false, onClose } = {}) {
  const id = `dialog-${(last += 1)}`;
  const dialog = h(
    "dialog", { "aria-labelledby": id, class: wide ? "wide" : null },
    h("header", null, h("h2", { id }, title), h("button", { class: "plain icon", "aria-label": "Close", onclick: () => dialog.close() }, icon("close"))),
    h("div", { class: "dialog-body" }, body),
    buttons.length > 0 ? h("footer", null, buttons) : null,
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    onClose?.();
  });
  // A text that scrolls needs the focus, or the keyboard cannot scroll it.
  const content = dialog.querySelector(".dialog-body");
  if (!content.querySelector("a, button, input, select, textarea, [tabindex]")) content.tabIndex = 0;
  document.body.append(dialog);
  dialog.showModal();
  return { element: dialog, close: () => dialog.close() };
}

/** A command line with a button that copies it. */
export function commandLine(text) {
  const button = h("button", { class: "plain", onclick: () => copy(text) }, icon("copy"), "Copy");
  return h("div", null, h("p", { class: "muted" }, "The same on the command line:"), h("div", { class: "command" }, h("pre", { tabindex: "0" }, unbroken(text)), button));
}

/** The words of a text. A line breaks between words, and not at the hyphens of an option. */
function unbroken(text) {
  return text.split(/(\s+)/).map((word) => (word.trim() ? h("span", null, word) : word));
}

/** Puts a text into the clipboard. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.", "good");
  } catch {
    toast("The browser does not allow copying here. Select the text instead.", "bad");
  }
}

/**
 * Asks, shows a preview, and acts:
 *   actionDialog(context, {
 *     title: "Delete topic orders", path: "/topics/orders/delete",
 *     fields: form(...) or null,          its values() are the body
 *     body: () => ({...}),                or the body without fields
 *     verb: "Delete", danger: true, confirm: "orders",   the text to type
 *     show: (outcome) => element,         more of the preview
 *     done: (outcome) => {...},
 *   })
 * Without fields, the preview is shown at once.
 */
export function actionDialog(context, options) {
  const body = () => ({ ...(options.fields?.values() ?? {}), ...(options.body?.() ?? {}) });
  const preview = h("div", { class: "form", "aria-live": "polite" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const typed = options.confirm ? h("input", { "aria-label": `Type ${options.confirm} to confirm`, autocomplete: "off", spellcheck: "false", oninput: () => update() }) : null;
  const act = h("button", { class: `primary ${options.danger ? "danger" : ""}`, onclick: () => run() }, options.verb);
  const look = h("button", { onclick: () => show() }, "Preview");
  let seen = null;
  let isBusy = false;

  const update = () => {
    const isCurrent = seen !== null && seen === JSON.stringify(body());
    act.disabled = isBusy || !isCurrent || (typed !== null && typed.value !== options.confirm);
    look.disabled = isBusy || isCurrent;
    if (!isCurrent && options.fields) preview.replaceChildren();
  };
  const attempt = async (work) => {
    problem.hidden = true;
    isBusy = true;
    update();
    try {
      await work();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      isBusy = false;
      update();
    }
  };
  const show = () => attempt(async () => {
    if (options.fields && !options.fields.check()) return;
    const sent = body();
    const outcome = await context.api.post(options.path, { ...sent, preview: true });
    seen = JSON.stringify(sent);
    fill(preview, h("p", null, outcome.summary), options.show?.(outcome) ?? null, commandLine(outcome.command));
  });
  const run = () => attempt(async () => {
    const outcome = await context.api.post(options.path, body());
    dialog.close();
    toast(outcome.summary, "good");
    await options.done?.(outcome);
  });

  const dialog = openDialog(
    options.title,
    [options.text ? h("p", null, options.text) : null, options.fields?.element ?? null, preview, typed ? h("div", { class: "field" }, h("span", null, "Type ", h("strong", null, options.confirm), " to confirm:"), typed) : null, problem],
    [h("button", { onclick: () => dialog.close() }, "Cancel"), options.fields ? look : null, act],
    { wide: options.wide },
  );
  options.fields?.element.addEventListener("input", update);
  options.fields?.element.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!look.disabled) show();
  });
  if (!options.fields) show();
  update();
  return dialog;
}
