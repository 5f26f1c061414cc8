"""The change of a group with members between the classic and the consumer protocol, in both directions (KIP-848)."""
