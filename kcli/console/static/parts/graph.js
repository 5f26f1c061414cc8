// Line graphs in SVG.
import { h } from "./dom.js";
import { number, time } from "./format.js";

const NARROW = 800; // pixels of a screen without the menu beside the page
const EDGES = 60; // pixels beside a graph on a narrow screen
const WIDE_EDGES = 310; // pixels beside a graph on a wide screen: the menu and the edges
const GAP = 42; // pixels between two graphs in a row
const HALF_MIN = 360; // pixels of a graph beside another; below, the style puts one under the other
const LEFT = 62;
const BOTTOM = 20;
const TOP = 8;
const LINES = 4;

/**
 * lineGraph({
 *   label: "Lag of group g",
 *   series: [{name: "orders-0", points: [[time_ms, value], …]}],    at most six; a null value is a gap
 *   format: bytes, height: 180, area: true,
 *   isHalf: true,      another graph is beside this graph
 * })
 */
export function lineGraph({ label, series, format = number, height = 180, area = false, isHalf = false }) {
  const width = widthOf(isHalf);
  const points = series.flatMap((each) => each.points).filter(([, value]) => value !== null);
  const [from, to] = range(points.map(([at]) => at));
  if (points.length < 2 || from === to) return h("div", { class: "empty" }, "Not enough samples yet. The console keeps them while it runs.");
  const top = nice(Math.max(...points.map(([, value]) => value)) || LINES);
  const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - 8);
  const y = (value) => TOP + (1 - value / top) * (height - TOP - BOTTOM);
  const grid = [];
  for (let line = 0; line <= LINES; line += 1) {
    const value = (top * line) / LINES;
    grid.push(h("line", { class: "grid", x1: LEFT, x2: width - 8, y1: y(value), y2: y(value) }));
    grid.push(h("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  }
  const clock = (at) => time(at).slice(11, 19);
  const labels = [h("text", { x: LEFT, y: height - 4 }, clock(from)), h("text", { x: width - 8, y: height - 4, "text-anchor": "end" }, clock(to))];
  const last = series.map((each) => `${each.name}: ${format(each.points.at(-1)?.[1] ?? null)}`).join(", ");
  return h(
    "figure", { class: "form", style: null },
    h(
      "svg", { class: "graph", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label}. Latest values: ${last}` },
      grid, labels,
      series.slice(0, 6).map((each, index) => drawn(each.points, index + 1, x, y, area)),
    ),
    series.length > 1 ? h("figcaption", { class: "legend" }, series.slice(0, 6).map((each, index) => h("span", { class: `series-${index + 1}` }, each.name))) : null,
  );
}

/** The width of a graph on this screen. The texts of a graph are readable only if it is drawn in its own size. */
function widthOf(isHalf) {
  const whole = innerWidth - (innerWidth > NARROW ? WIDE_EDGES : EDGES);
  const half = (whole - GAP) / 2;
  return Math.round(isHalf && half > HALF_MIN ? half : whole);
}

function drawn(points, index, x, y, area) {
  const parts = [];
  let part = [];
  for (const [at, value] of points) {
    if (value === null) {
      parts.push(part);
      part = [];
    } else part.push([x(at), y(value)]);
  }
  parts.push(part);
  return parts.filter((each) => each.length > 0).map((each) => {
    const line = each.map(([across, down]) => `${across.toFixed(1)} ${down.toFixed(1)}`).join("L");
    const under = `M${line}L${each.at(-1)[0].toFixed(1)} ${y(0)}L${each[0][0].toFixed(1)} ${y(0)}Z`;
    return [area ? h("path", { class: `area series-${index}`, d: under }) : null, h("path", { class: `line series-${index}`, d: `M${line}` })];
  });
}

function range(values) {
  return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
}

/** The next number of the form 1, 2, 4 or 5 times a power of ten. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].find((each) => each * power >= value * 0.999) * power;
}

/** A bar that shows a part of a whole, with its text. */
export function usageBar(part, whole, text) {
  if (!whole) return text ?? "–";
  const share = Math.min(1, part / whole);
  const bar = h("span", null);
  bar.style.width = `${(share * 100).toFixed(1)}%`;
  return h("div", { class: "row" }, h("div", { class: `bar ${share > 0.9 ? "bad" : share > 0.8 ? "warn" : ""}`, "aria-hidden": "true" }, bar), h("span", null, text ?? `${Math.round(share * 100)} %`));
}
