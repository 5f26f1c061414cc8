"""Groups of newer protocols (share, streams) that this broker lists but does not serve."""
