"""The state of a consumer group: the group, its members, its records, and its restoration after a failed write."""
