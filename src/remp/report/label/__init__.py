"""The page about a labelling."""
