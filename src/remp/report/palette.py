"""The colours of figures and pages."""

INK, QUIET = "#1f2430", "#6b7280"
# Okabe and Ito's colours, told apart by all kinds of colour vision; more classes begin again.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7f00", "#4d4d4d")


def class_colour(way: int) -> str:
    """The colour (#rrggbb) of a class, in every figure and table."""
    return COLOURS[way % len(COLOURS)]
