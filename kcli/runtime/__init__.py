"""The four interfaces to the outside world (called seams): clock, disk, network, randomness.

Each interface is a typing.Protocol with a real implementation here and a simulated one in kcli.testing.
"""
