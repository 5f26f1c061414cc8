"""A consumer group as its records have it: the group, its members, and how it goes back when a write fails."""
