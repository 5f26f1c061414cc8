"""The metadata quorum (KIP-595): its leader, its voters, and how far the log is committed. This package does no input
or output."""
