"""Parts that tests share: logs made by hand, scripted servers, and the number of examples of a property test."""
