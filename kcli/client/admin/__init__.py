"""The admin client: one coroutine per administrative call."""
