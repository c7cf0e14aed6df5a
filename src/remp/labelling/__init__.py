"""Label a few, have the rest labelled."""
