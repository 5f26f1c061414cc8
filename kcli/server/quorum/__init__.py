"""The work of a node in the metadata quorum: metadata log, raft node, active controller, broker registration."""
