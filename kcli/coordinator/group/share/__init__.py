"""Share groups (KIP-932). This broker lists them, but does not serve their members yet."""
