"""Facts about running processes, read without stopping them."""
