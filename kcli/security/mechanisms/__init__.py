"""SASL mechanisms. They take and return bytes, so that blocking connections and asyncio connections can use the same
code.
"""
