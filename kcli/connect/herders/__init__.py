"""A herder decides what runs where: alone, or as a member of a group of workers."""
