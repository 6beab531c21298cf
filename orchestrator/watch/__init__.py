"""A live page of a run folder: reads its files, serves them to this machine alone."""
