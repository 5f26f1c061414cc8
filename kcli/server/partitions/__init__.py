"""The partitions that this broker keeps."""
