"""Names of strangers are printed without anything hidden, and short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remp.report import percent, short
from remp.untrusted import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("dog.jpg", "dog.jpg"),
        ("two\nlines", "two\\nlines"),
        ("exe.\u202egpj", "exe.\\u202egpj"),
        ("broken \udcff", "broken \\udcff"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # the joiner is part of the word
        ("柴犬\u3000子犬", "柴犬\u3000子犬"),
    ],
)
def test_only_what_cannot_be_seen_is_escaped(text, shown):
    assert visible(text) == shown


@given(st.text(st.characters(codec=None), max_size=80))
def test_visible_text_is_one_line_of_unicode(text):
    shown = visible(text)
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert len(shown.splitlines()) <= 1


@given(st.text("abc", max_size=60), st.integers(3, 50))
def test_a_short_name_keeps_its_beginning_and_its_end(text, longest):
    shown = short(text, longest)
    assert len(shown) <= longest
    first, _, last = shown.partition("…")
    assert text.startswith(first)
    assert text.endswith(last)
    assert "…" in shown or shown == text


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "0 %"), (0.001, "< 1 %"), (0.873, "87 %"), (0.9949, "99 %"), (0.9999, "> 99 %"), (1, "100 %")],
)
def test_what_is_not_certain_is_not_printed_as_certain(share, shown):
    assert percent(share).replace("\u00a0", " ") == shown
