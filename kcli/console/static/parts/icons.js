// Line icons of 16 by 16 pixels.
import { h } from "./dom.js";

const PATHS = {
  overview: "M2 9h3l2-5 3 8 2-4h2",
  brokers: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  topics: "M3 4h10M3 8h10M3 12h6",
  messages: "M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2z",
  groups: "M6 7a2.2 2.2 0 1 0 0-4.4A2.2 2.2 0 0 0 6 7zM1.8 13c.3-2.4 2-3.6 4.2-3.6s3.9 1.2 4.2 3.6M10.5 3a2 2 0 0 1 0 4M12 9.6c1.3.4 2.1 1.6 2.3 3.4",
  transactions: "M3 5.5h9L9.5 3M13 10.5H4L6.5 13",
  security: "M8 1.8 13 4v3.6c0 3-2 5.4-5 6.6-3-1.2-5-3.6-5-6.6V4z",
  quotas: "M2.5 12a5.5 5.5 0 1 1 11 0M8 12l3-4.5",
  balance: "M8 2v11M4.5 13h7M3 4.5h10M3 4.5 1.5 9h3zM13 4.5 11.5 9h3z",
  jobs: "M8 1.8 9.7 6l4.5.3-3.5 2.9 1.1 4.4L8 11.2l-3.8 2.4 1.1-4.4L1.8 6.3 6.3 6z",
  connect: "M6 10 4.5 11.500a2.5 2.5 0 0 1-3.5-3.500L3 6M10 6l1.5-1.500a2.5 2.5 0 0 1 3.5 3.500L13 10M5.5 10.500l5-5",
  schemas: "M3 2.5h6l4 4v7H3zM9 2.5v4h4",
  trace: "M2 4h5M5 8h6M9 12h5",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1.500v1.500M8 13v1.500M1.5 8h1.500M13 8h1.500M3.4 3.400l1.06 1.060M11.54 11.540l1.06 1.060M12.6 3.400l-1.06 1.060M4.46 11.54 3.4 12.6",
  moon: "M13.5 9.500A5.8 5.8 0 0 1 6.5 2.500a5.8 5.8 0 1 0 7 7z",
  help: "M8 14.500a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM6 6.200a2 2 0 1 1 2.8 1.900c-.5.2-.8.6-.8 1.200v.3M8 12h.01",
  menu: "M2.5 4.500h11M2.5 8h11M2.5 11.500h11",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M5.5 5.500h7v8h-7zM3.5 10.500v-8h7",
  refresh: "M13 8a5 5 0 1 1-1.5-3.600M13 2v3h-3",
  user: "M8 7.500a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.500c.4-2.7 2.3-4 5-4s4.6 1.3 5 4",
  plus: "M8 3v10M3 8h10",
  trash: "M3 4.500h10M6.5 4.500v-2h3v2M4.5 4.500l.6 9h5.800l.6-9",
  edit: "M3 13l.6-2.6 7.2-7.2 2 2-7.2 7.200z",
  warning: "M8 2.5 14.5 13.500h-13zM8 6.500v3.500M8 12h.01",
  download: "M8 2.500v8M4.5 7.5 8 11l3.5-3.500M3 13.500h10",
  play: "M5 3.500v9l7-4.500z",
  bookmark: "M4.5 2.5h7v11L8 10.5l-3.5 3z",
  stop: "M4.5 4.500h7v7h-7z",
};

export function icon(name) {
  return h(
    "svg",
    { viewBox: "0 0 16 16", fill: "none", stroke: "currentColor", "stroke-width": "1.5", "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" },
    h("path", { d: PATHS[name] ?? PATHS.topics }),
  );
}
