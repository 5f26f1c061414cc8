"""Raw batches in and out: builds Fetch and Produce requests, reads their responses, and sends them to the leaders.

Batches are bytes here, compressed as they are. `fetch_plan.py`, `fetch.py` and `produce.py` do no input or output.
"""
