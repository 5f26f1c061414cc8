"""The configuration keys of workers and connectors, plugins by name, and the validation of configurations."""
