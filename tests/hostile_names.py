"""Names that a stranger may give to a file, a class or a method."""

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(2)'>",
    "{{ 7 * 7 }}{% raw %}",
    "line\nbreak\ttab\x00nul",
    "קיצור \u202egnp.exe",
    "漢字かな交じり文",
    "broken \udcff byte",
    "x" * 300,
    "&amp;lt; $\\frac{1}{0}$",
)
