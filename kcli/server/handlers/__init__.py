"""The handlers, one module for each API. `handle(context, request)` returns the response or an awaitable of the
response."""
