"""The loop of a source task: polls, the producer, and the offsets that may be stored."""
