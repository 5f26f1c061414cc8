// Keys: "/" searches, "?" helps, "g" and a letter go to a page.
import { h } from "./dom.js";
import { openDialog } from "./dialog.js";

const WAIT_MS = 1200;

/** goes: a function that returns [{key, title, go()}]. */
export function listenToKeys(goes) {
  let waitsUntil = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (event.timeStamp < waitsUntil) {
      waitsUntil = 0;
      const found = goes().find((each) => each.key === event.key);
      if (found) {
        event.preventDefault();
        found.go();
      }
    } else if (event.key === "g") waitsUntil = event.timeStamp + WAIT_MS;
    else if (event.key === "/") {
      const search = document.querySelector("main [data-search]");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    } else if (event.key === "?") showKeys(goes());
  });
}

/** The dialog with all keys. */
export function showKeys(goes) {
  const row = (keys, text) => [h("dt", null, keys.map((key) => [h("kbd", null, key), " "])), h("dd", null, text)];
  openDialog("Keys", [
    h("dl", { class: "facts" }, row(["/"], "Search in the list"), row(["?"], "This help"), row(["Esc"], "Close a dialog"), row(["Tab"], "Move to the next control"), goes.map((each) => row(["g", each.key], each.title))),
  ]);
}

function isTyping(element) {
  return element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));
}
