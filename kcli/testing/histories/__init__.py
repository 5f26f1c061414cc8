"""Runs clients against a cluster of real processes while faults happen, and looks for anomalies in what the clients
saw.

python -m kcli.testing.histories --minutes 5 --faults kill,pause --seed 1
"""
