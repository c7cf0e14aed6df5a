"""Pages and figures for people: of the demo, of a labelling, of a comparison."""
