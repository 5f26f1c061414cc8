"""The leader's decisions on a partition: high watermark, in-sync replicas, and which waiting requests are due. Pure."""
