"""A cluster on one machine: nodes in their own processes, started and watched by one parent (docs/adr/0016).

`layout` decides the roles, ports and properties of the nodes. `directory` writes and reads the files. `watch` decides
when a node is started again, and in which order nodes stop. `supervisor` is the parent process.
"""
