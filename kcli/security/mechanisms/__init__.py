"""SASL mechanisms without input or output: bytes in, bytes out, for blocking and asyncio connections alike."""
