"""The code of a node that uses sockets, disks and the event loop of asyncio. It calls the other packages, which contain
the rules and state machines.
"""
