"""Value formats: bytes of record keys and values to Python values and back, for every program that needs them."""
