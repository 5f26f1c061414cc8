"""A group that changes its protocol while it has members, in both directions (KIP-848)."""
