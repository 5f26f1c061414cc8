"""Runs clients against a cluster of real processes while faults happen. Then searches the results that the clients saw
for anomalies.

PYTHONPATH=tests python -m simulation.histories --minutes 5 --faults kill,pause --seed 1
"""
