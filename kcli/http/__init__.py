"""HTTP/1.1 for all parts of kcli: a server with routes and limits, and a client. Both use aiohttp."""
