// All pages. Each area adds one import and one entry, in the order of the menu.
import brokers from "./brokers.js";
import overview from "./overview.js";
import topics from "./topics.js";

export const pages = [
  overview,
  brokers,
  topics,
];

/** The groups of the menu. A group without pages is not shown. */
export const groups = ["Cluster", "Data", "Consumers", "Security", "Jobs", "Connect", "Schemas"];
