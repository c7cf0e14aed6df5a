"""How good a labelling is, and what to look at."""
