// Short messages in the corner. Screen readers read them aloud.
import { h } from "./dom.js";
import { icon } from "./icons.js";

const SHOWN_MS = 6000;
const SHOWN_MAX = 5;

let place = null;

/** kind: "good", "bad" or "". A bad one stays until it is closed. */
export function toast(message, kind = "") {
  if (place === null) {
    // A popover is above open dialogs.
    place = h("section", { class: "toasts", "aria-label": "Messages", "aria-live": "polite", popover: "manual" });
    document.body.append(place);
  }
  const note = h(
    "div",
    { class: `toast ${kind}`, role: kind === "bad" ? "alert" : null },
    h("p", null, message),
    h("button", { class: "plain icon", "aria-label": "Close this message", onclick: () => close(note) }, icon("close")),
  );
  place.append(note);
  while (place.children.length > SHOWN_MAX) place.firstElementChild.remove();
  if (place.showPopover) {
    if (place.matches(":popover-open")) place.hidePopover();
    place.showPopover();
  }
  if (kind !== "bad") setTimeout(() => close(note), SHOWN_MS);
}

function close(note) {
  note.remove();
  if (place.children.length === 0 && place.matches?.(":popover-open")) place.hidePopover();
}
