"""Transactions (KIP-98, KIP-360, KIP-890): one state machine per transactional id."""
