"""Checks for simulations and histories. Each check finds broken promises of Kafka, in a simulation after every
event.
"""
