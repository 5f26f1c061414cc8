"""What the leader of a partition decides: in-sync replicas, high watermark, requests that wait. Pure."""
