"""The node's part in the metadata quorum: metadata log, raft node, active controller, broker registration."""
