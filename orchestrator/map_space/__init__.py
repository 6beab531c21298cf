"""`mapspace space`: how large a map space is, and what it looks like."""
