"""Brokers, clients and worlds that several test modules use. A test module never imports another test module.

Code that users can use in their own tests is in `kcli.testing`.
"""
