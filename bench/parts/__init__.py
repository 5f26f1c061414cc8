"""The parts of bench/run.py. A part is one function that gets its own broker, and adds its figures."""
