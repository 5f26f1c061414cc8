"""What must hold after every event, and who judges it."""
