"""A page as tests look at it."""

from html.parser import HTMLParser

EMPTY = ("br", "circle", "img", "line", "meta", "wbr", "path", "rect")


class Page(HTMLParser):
    """The elements of a page with their attributes, its text, and the elements that are still open at its end."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str, **wanted: str) -> list[dict]:
        """The attributes of the elements of this name that have the wanted attributes."""
        return [found for name, found in self.elements if name == tag and wanted.items() <= found.items()]
