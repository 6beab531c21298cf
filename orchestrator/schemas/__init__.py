"""What commands print as JSON: the types that the code writes, and the schemas made of them."""
