"""The partitions of this broker."""
