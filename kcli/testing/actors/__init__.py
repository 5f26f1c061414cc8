"""Clients of the simulation: producers, consumers, groups, transactions, an administrator."""
