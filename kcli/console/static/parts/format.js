// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat("en");

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  let size = Math.abs(value);
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 ? 0 : 1;
  return `${value < 0 ? "-" : ""}${size.toFixed(digits)} ${UNITS[unit]}`;
}

/** A duration in milliseconds: 900 ms, 12 s, 5 min, 3 h, 2 days. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** A time in milliseconds since 1970, in the time zone of the browser: 2026-11-23 09:14:03.120 */
export function time(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const date = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${day} ${clock}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** How old an answer of the cluster is. */
export const age = (ms) => (ms < 1500 ? "now" : `${duration(ms)} ago`);

export const plural = (count, word, many = `${word}s`) => `${number(count)} ${count === 1 ? word : many}`;
