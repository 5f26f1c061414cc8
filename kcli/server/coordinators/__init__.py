"""Coordinators of groups and transactions on this broker."""
