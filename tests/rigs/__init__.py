"""Brokers, clients and worlds that several test modules use. No test module imports another one: what two need is here.

What users may want in tests of their own is in `kcli.testing`.
"""
