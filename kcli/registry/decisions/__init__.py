"""The rules of a schema registry. They get values and return values, without input, output, clock or tasks.

`Rules.of(settings)` is a registry without records. `rules.state.replay` applies each record of `_schemas`. A function
that answers a request takes the rules first, and raises RegistryError if it refuses the request. A function that can
change the registry returns a Decision with the records to write. The caller must apply these records with `replay`
before it asks for the next decision.

- registration: `registered` (any node) and `register` (the leader)
- lookup, lists, checks: answers that change nothing
- deletion, scopes: deletions, configs and modes
"""
