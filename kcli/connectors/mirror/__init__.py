"""MirrorMaker 2: connectors that copy topics, group offsets and heartbeats from one cluster to another."""
