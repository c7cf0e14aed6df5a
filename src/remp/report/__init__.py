"""Pages and figures for people: of a labelling, of a comparison, and how all of them look."""
