"""Labels from a few rows to many, whatever the shares of the classes, and how far the answers can be trusted."""
