"""One search on many evaluators: queries out of order, an event log that replays to the same."""
