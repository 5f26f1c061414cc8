"""Parts that tests share: logs and batches, certificates, scripted servers, and the number of examples of a property
test.
"""
