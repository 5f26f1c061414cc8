"""Change data capture from PostgreSQL by logical replication, with the events of Debezium's connector."""
