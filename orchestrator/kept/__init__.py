"""Results that are kept beside pages, and the tables that pages have from them."""
