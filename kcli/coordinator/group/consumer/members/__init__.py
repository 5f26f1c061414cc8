"""What members of a consumer group ask, in either protocol, and how they leave."""
