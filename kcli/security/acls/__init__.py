"""Authorization by ACLs, as in Kafka's StandardAuthorizer: the index of rules, decisions, and the audit log."""
