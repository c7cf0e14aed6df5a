"""The files that a labelling leaves."""
