"""Parts: the rows of the list that a node starts and stops, and the periodic jobs of these rows."""
