"""All logs of a node and its log directories: loads, maintains, moves and deletes logs."""
