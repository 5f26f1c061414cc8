"""The states of a member of the quorum, one class each. table.py has the legal moves between them."""
