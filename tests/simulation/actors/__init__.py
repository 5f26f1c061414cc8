"""Clients of the simulation (actors): producers, consumers, group members, transactions and an administrator."""
