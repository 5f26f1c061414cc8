"""The requests of members of a consumer group, in either protocol, and how members leave."""
