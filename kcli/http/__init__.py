"""HTTP/1.1 for everything in kcli that speaks it: a server of routes and limits, and a client. Both are aiohttp."""
