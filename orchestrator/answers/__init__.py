"""What a search is asked, what it returns, and how that reads."""
