"""The decisions of the active controller: which records an operation on the cluster needs. No input or output."""
