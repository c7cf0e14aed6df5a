"""The page that the demo writes."""
