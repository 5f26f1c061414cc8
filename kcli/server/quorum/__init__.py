"""The part of this node in the metadata quorum."""
