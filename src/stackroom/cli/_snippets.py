"""Snippets of hits: what a passage says around the query's words, those words marked as the index sees them."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from rich.text import Text

from stackroom import lexical_tokens, snippet_around
from stackroom.cli._visible import visible
from stackroom.text import expanding_terms, index_terms, is_blank, query_terms
from stackroom.text._documents import headings_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SMALL_WORD: Final = 3
_LONGEST_SNIPPET: Final = 400  # a text without white space comes back whole
_FENCE: Final = re.compile(r" {0,3}(?:`{3,}|~{3,})[^`~]*")
_ZERO_WIDTH_SPACE: Final = "\u200b"


def snippet_of(
    text: str, query: str, *, prefix: bool = False, known: Iterable[str] = (), before: int = 80, after: int = 160
) -> Text:
    """Return what a passage says around the query's words, those in bold; an ellipsis shows where text is left out.

    The marks of Markdown headings and fences are left out, and so are headings that are `known`, which stand beside
    the snippet, unless the passage holds nothing else.
    """
    said = _said(text, set(known))
    words = lexical_tokens(query)
    # Small words stand everywhere; what surrounds them says little.
    long_words = [word for word in words if len(word) > _SMALL_WORD or not word.isascii()]
    snippet = snippet_around(said, long_words, before=before, after=after)
    if snippet.at < 0:
        snippet = snippet_around(said, words, before=before, after=after)
    marked = Text(visible(snippet.text), overflow="fold")
    for start, end in _marks(marked.plain, query, prefix=prefix):
        marked.stylize("bold yellow", start, end)
    start = max(0, marked.spans[0].start - before) if marked.spans and len(marked) > _LONGEST_SNIPPET else 0
    shown = marked[start : start + _LONGEST_SNIPPET]
    whole = visible(" ".join(said.split()))
    opening = "" if whole.startswith(shown.plain) else "… "
    return Text.assemble(opening, shown, "" if whole.endswith(shown.plain) else " …", overflow="fold")


def _said(text: str, known: set[str]) -> str:
    """Return a passage as one reads it: without fences, without the marks of headings, without `known` headings."""
    lines = text.splitlines(keepends=True)
    places = pairwise(accumulate(map(len, lines), initial=0))
    titles = {start: title for start, _, title in headings_of(text)}
    said = {
        start: titles.get(start, line)
        for (start, _), line in zip(places, lines, strict=True)
        if not _FENCE.fullmatch(line.rstrip())
    }
    told = [line for start, line in said.items() if titles.get(start) not in known]
    for kept in (told, said.values()):
        if not is_blank("".join(kept)):
            return "\n".join(kept)
    return text


# Marks


@dataclass(frozen=True, slots=True)
class _Asked:
    """What of a query is marked: whole terms, and beginnings of terms."""

    terms: frozenset[str]
    beginnings: tuple[str, ...]

    @classmethod
    def by(cls, query: str, *, prefix: bool) -> _Asked:
        """Read a query; its single letters count only when there is nothing else in it."""
        terms = query_terms(query)
        telling = frozenset(term for term in terms if not _is_single_letter(term)) or frozenset(terms)
        return cls(telling, tuple(expanding_terms(query) & telling) if prefix else ())

    def holds(self, term: str) -> bool:
        """Tell whether a term of the text is asked for."""
        return term in self.terms or (bool(self.beginnings) and term.startswith(self.beginnings))


def _is_single_letter(term: str) -> bool:
    """Tell whether a term is one letter of a script that writes words with several; one of 東 is a word."""
    return len(term) == 1 and term.isalpha() and unicodedata.category(term) != "Lo"


def _marks(text: str, query: str, *, prefix: bool) -> Iterator[tuple[int, int]]:
    """Yield where the words stand that the query asks for: whole words, each place once, in order."""
    asked = _Asked.by(query, prefix=prefix)
    for run in _words(text):
        terms = index_terms(run[0])
        if len(terms) == 1 and asked.holds(terms[0]):
            yield run.span()
        elif len(terms) > 1:
            found = [term for term in terms if asked.holds(term)]
            yield from ((run.start() + start, run.start() + end) for start, end in _places(run[0], found))


def _words(text: str) -> Iterator[re.Match[str]]:
    """Yield the runs of letters and digits, with the marks and joiners that the index leaves inside a word."""
    inner = "".join(character for character in set(text) if _stays_inside(character))
    return re.finditer(rf"[^\W_](?:[^\W_]|[{inner}])*" if inner else r"[^\W_]+", text)


def _stays_inside(character: str) -> bool:
    category = unicodedata.category(character)
    return category.startswith("M") or (category == "Cf" and character != _ZERO_WIDTH_SPACE)


def _places(run: str, terms: Iterable[str]) -> list[tuple[int, int]]:
    """Return where terms stand to the letter in a run of a script without spaces; places that touch are one.

    None when lower case moves the run's characters.
    """
    lowered = run.lower()
    if len(lowered) != len(run):
        return []
    spans = sorted(found.span() for term in set(terms) for found in re.finditer(re.escape(term), lowered))
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
