"""The admin client: one coroutine for each administrative call."""
