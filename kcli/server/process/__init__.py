"""The process of a node: when Python's garbage collector runs, and reports of long turns of the event loop."""
