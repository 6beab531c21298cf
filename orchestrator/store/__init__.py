"""What was computed once: content addresses, the store's files, and questions to them."""
