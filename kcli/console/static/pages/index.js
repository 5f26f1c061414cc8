// All pages. Each area adds one import and one entry, in the order of the menu.
import balance from "./balance.js";
import brokers from "./brokers.js";
import connect from "./connect.js";
import overview from "./overview.js";
import consumerGroups from "./groups.js";
import messages from "./messages.js";
import quotas from "./quotas.js";
import schemas from "./schemas.js";
import security from "./security.js";
import spark from "./spark.js";
import topics from "./topics.js";
import trace from "./trace.js";
import transactions from "./transactions.js";

export const pages = [
  overview,
  brokers,
  balance,
  topics,
  messages,
  transactions,
  consumerGroups,
  trace,
  spark,
  connect,
  schemas,
  security,
  quotas,
];

/** The groups of the menu. A group without pages is not shown. */
export const groups = ["Cluster", "Data", "Consumers", "Security", "Jobs", "Connect", "Schemas"];
