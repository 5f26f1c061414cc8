// Line graphs in SVG.
import { timeMarks, valueLines } from "./axis.js";
import { h } from "./dom.js";
import { number } from "./format.js";

const NARROW = 800; // pixels of a screen without the menu beside the page
const EDGES = 60; // pixels beside a graph on a narrow screen
const WIDE_EDGES = 310; // pixels beside a graph on a wide screen: the menu and the edges
const GAP = 42; // pixels between two graphs in a row
const HALF_MIN = 360; // pixels of a graph beside another; below, the style puts one under the other
const LEFT = 62;
const BOTTOM = 20;
const TOP = 8;
const TIME_HALF = 30; // pixels from the middle of a time to its end
const GAP_SAMPLES = 2.5; // a pause of so many samples is a gap

/**
 * lineGraph({
 *   label: "Lag of group g",
 *   series: [{name: "orders-0", points: [[time_ms, value], …]}],    at most six; a null value is a gap
 *   format: bytes, height: 180, area: true,
 *   kind: "bytes",     what is round on the axis: "count", "bytes" or "seconds"
 *   every: 10000,      milliseconds between two samples: a longer pause is a gap in the line
 *   until: now,        the right edge, so that a graph without new samples ends before it
 *   isHalf: true,      another graph is beside this graph
 * })
 */
export function lineGraph({ label, series, format = number, height = 180, area = false, isHalf = false, kind = "count", every = Infinity, until = 0 }) {
  const width = widthOf(isHalf);
  const points = series.flatMap((each) => each.points).filter(([, value]) => value !== null);
  const [from, last] = range(points.map(([at]) => at));
  const to = until - last > every * GAP_SAMPLES ? until : last;
  if (points.length < 2 || from === last) return h("div", { class: "empty" }, "Not enough samples yet. The console keeps them while it runs.");
  const lines = valueLines(points.reduce((most, [, value]) => Math.max(most, value), 0), kind);
  const top = lines.at(-1);
  const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - 8);
  const y = (value) => TOP + (1 - value / top) * (height - TOP - BOTTOM);
  const grid = [];
  for (const value of lines) {
    grid.push(h("line", { class: "grid", x1: LEFT, x2: width - 8, y1: y(value), y2: y(value) }));
    grid.push(h("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  }
  const labels = timeMarks(from, to, width - LEFT - 8).map(({ at, text }) => [
    h("line", { class: "grid", x1: x(at), x2: x(at), y1: y(0), y2: y(0) + 4 }),
    h("text", { x: x(at), y: height - 4, "text-anchor": x(at) > width - TIME_HALF ? "end" : "middle" }, text),
  ]);
  const latest = series.map((each) => `${each.name}: ${format(each.points.at(-1)?.[1] ?? null)}`).join(", ");
  return h(
    "figure", { class: "form", style: null },
    h(
      "svg", { class: "graph", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label}. Latest values: ${latest}` },
      grid, labels,
      series.slice(0, 6).map((each, index) => drawn(each.points, { index: index + 1, x, y, area, gap: every * GAP_SAMPLES })),
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

function drawn(points, { index, x, y, area, gap }) {
  const parts = [];
  let part = [];
  let before = null;
  for (const [at, value] of points) {
    if (value === null || (before !== null && at - before > gap)) {
      parts.push(part);
      part = [];
    }
    if (value !== null) part.push([x(at), y(value)]);
    before = at;
  }
  parts.push(part);
  return parts.filter((each) => each.length > 0).map((each) => {
    if (each.length === 1) return h("circle", { class: `dot series-${index}`, cx: each[0][0].toFixed(1), cy: each[0][1].toFixed(1), r: 2 });
    const line = each.map(([across, down]) => `${across.toFixed(1)} ${down.toFixed(1)}`).join("L");
    const under = `M${line}L${each.at(-1)[0].toFixed(1)} ${y(0)}L${each[0][0].toFixed(1)} ${y(0)}Z`;
    return [area ? h("path", { class: `area series-${index}`, d: under }) : null, h("path", { class: `line series-${index}`, d: `M${line}` })];
  });
}

function range(values) {
  return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
}

/** A bar that shows a part of a whole, with its text. */
export function usageBar(part, whole, text) {
  if (!whole) return text ?? "–";
  const share = Math.min(1, part / whole);
  const bar = h("span", null);
  bar.style.width = `${(share * 100).toFixed(1)}%`;
  return h("div", { class: "row" }, h("div", { class: `bar ${share > 0.9 ? "bad" : share > 0.8 ? "warn" : ""}`, "aria-hidden": "true" }, bar), h("span", null, text ?? `${Math.round(share * 100)} %`));
}
