"""Groups of the consumer protocol (KIP-848), in which the coordinator assigns partitions to members."""
