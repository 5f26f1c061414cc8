"""The code of a node that uses sockets, disks and the event loop of asyncio. It runs the rules of the other
packages.
"""
