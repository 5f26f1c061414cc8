"""The four interfaces between kcli and its environment (called seams): clock, disk, network, randomness.

Each interface is a typing.Protocol. Its real implementation is in this package, and a simulated implementation is in
tests/simulation/runtime/.
"""
