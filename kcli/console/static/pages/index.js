// All pages. Each area adds one import and one entry, in the order of the menu.
import brokers from "./brokers.js";

export const pages = [
  brokers,
];

/** The groups of the menu. A group without pages is not shown. */
export const groups = ["Cluster", "Data", "Consumers", "Security", "Jobs", "Connect", "Schemas"];
