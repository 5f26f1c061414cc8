"""The parts of bench/run.py. A part is one function that gets a broker of its own, and adds its figures."""
