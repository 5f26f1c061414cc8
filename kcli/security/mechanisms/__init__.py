"""SASL mechanisms. They take and return bytes, and use no sockets. So blocking connections and asyncio connections use
the same code.
"""
