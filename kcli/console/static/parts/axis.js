// The axes of graphs: round values, and round times.
import { time } from "./format.js";

const LINES = 4; // the most lines above zero
const TIME_WIDTH = 90; // pixels that a time and its space need
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const SECONDS = [1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30].map((each) => each * MINUTE), ...[1, 2, 3, 6, 12].map((each) => each * HOUR), ...[1, 2, 7, 14, 30, 90, 365].map((each) => each * DAY)];

const STEPS = {
  count: (wanted) => Math.max(1, roundUp(wanted)),
  bytes: (wanted) => {
    const unit = 1024 ** Math.max(0, Math.floor(Math.log(wanted * LINES) / Math.log(1024)));
    return Math.max(1, unit * roundUp(wanted / unit));
  },
  seconds: (wanted) => SECONDS.find((each) => each >= wanted) ?? roundUp(wanted / DAY) * DAY,
};

/** The lines of an axis from zero to at least `most`. kind: "count", "bytes" or "seconds". */
export function valueLines(most, kind) {
  const step = STEPS[kind]((most > 0 ? most : 1) / LINES);
  const lines = Math.max(1, Math.ceil(most / step - 1e-9));
  return Array.from({ length: lines + 1 }, (_, line) => line * step);
}

/** The round times of an axis: [{at, text}], in the time zone of the browser. `width` is in pixels. */
export function timeMarks(from, to, width) {
  const most = Math.max(1, Math.floor(width / TIME_WIDTH));
  const step = 1000 * (SECONDS.find((each) => (to - from) / 1000 / each <= most) ?? SECONDS.at(-1));
  const zone = new Date(from).getTimezoneOffset() * MINUTE * 1000;
  const marks = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) marks.push({ at, text: clock(at, step) });
  return marks.length > 0 ? marks : [{ at: from, text: clock(from, 1000) }];
}

function clock(at, step) {
  const text = time(at);
  if (step >= DAY * 1000) return text.slice(5, 10);
  return step < MINUTE * 1000 ? text.slice(11, 19) : text.slice(11, 16);
}

/** The next number of the form 1, 2 or 5 times a power of ten. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((each) => each * power >= value * 0.999) * power;
}
