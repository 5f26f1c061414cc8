"""The keys of a registry's properties file, and the settings that are made from them."""
