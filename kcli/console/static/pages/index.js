// All pages. Each area adds one import and one entry, in the order of the menu.
import brokers from "./brokers.js";
import messages from "./messages.js";

export const pages = [
  brokers,
  messages,
];

/** The groups of the menu. A group without pages is not shown. */
export const groups = ["Cluster", "Data", "Consumers", "Security", "Jobs", "Connect", "Schemas"];
