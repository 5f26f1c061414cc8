"""The handlers, one module per API. `handle(context, request)` returns the response or an awaitable of it."""
