"""Documents and folders in bulk."""
