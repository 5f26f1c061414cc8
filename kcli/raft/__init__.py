"""The metadata quorum (KIP-595): who leads, how far the log is committed, and what its snapshots hold. Pure."""
