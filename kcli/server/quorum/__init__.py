"""This node in the metadata quorum."""
