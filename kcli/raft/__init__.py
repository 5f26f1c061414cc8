"""The metadata quorum (KIP-595): who leads, who votes, and how far the log is committed. Pure."""
