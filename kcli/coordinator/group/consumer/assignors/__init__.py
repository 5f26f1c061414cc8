"""The server-side assignors, which decide which member of a consumer group gets which partitions."""
