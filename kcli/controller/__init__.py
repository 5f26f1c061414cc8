"""The decisions of the active controller: the records that an operation on the cluster needs. Does no input or
output."""
