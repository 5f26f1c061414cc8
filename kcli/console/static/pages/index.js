// All pages. Each area adds one import and one entry, in the order of the menu.
import balance from "./balance.js";
import brokers from "./brokers.js";
import consumerGroups from "./groups.js";
import topics from "./topics.js";

export const pages = [
  brokers,
  balance,
  topics,
  consumerGroups,
];

/** The groups of the menu. A group without pages is not shown. */
export const groups = ["Cluster", "Data", "Consumers", "Security", "Jobs", "Connect", "Schemas"];
