// Builds elements. Texts become text nodes, so a name of a topic can never become markup.

const SVG = new Set(["svg", "path", "circle", "rect", "line", "polyline", "g", "text", "title"]);

/**
 * h("a", {href: "#x", class: "big", onclick: run}, "text", element, [more])
 * A property that begins with "on" is a listener. `null`, `undefined` and `false` leave a property or child out.
 * `class`, `aria-*`, `data-*`, `role` and all others are attributes; `value`, `checked`, `disabled` are set as properties.
 */
export function h(tag, props, ...children) {
  const inSvg = SVG.has(tag) && (tag !== "title" || props?.svg);
  const element = inSvg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false || name === "svg") continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else if (name === "href" && !isSafe(String(value))) continue;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

/** Puts children into an element: texts, numbers, elements, arrays of these. */
export function add(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** Replaces everything in an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

function isSafe(address) {
  return /^(#|\/|\.|https?:|[\w-]+(\/|$|\?))/.test(address) && !/^\s*javascript:/i.test(address);
}
