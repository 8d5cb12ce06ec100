"""The visible text of HTML, in time linear in its length, whatever is left unclosed.

Tokens, not a tree: a tree builder that obeys the standard looks for open elements again at every tag, so that 80,000
unclosed `<div>` cost it half a minute (selectolax 1.0.2). What is visible does not need the tree.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import Final

_TAG_NAME: Final = re.compile(r"(/?)([A-Za-z][^\s/>]*+)")
# Quotes count behind an equals sign only: `<p title=it's>` ends where it seems to.
_BEHIND_TAG_NAME: Final = re.compile(r"""(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)*+>""")
_SPACE: Final = re.compile(r"[ \t\n\f\r]+")
# Bounded, so that no number is too long to be read.
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?")

_HIDDEN: Final = frozenset({"script", "style", "iframe", "noembed", "noframes", "xmp"})
_BLOCKS: Final = frozenset(
    (  # noqa: SIM905 - a list of words reads as one
        "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption "
        "figure footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav ol optgroup option "
        "p pre search section select summary table tbody tfoot thead tr ul"
    ).split()
)
_CELLS: Final = frozenset({"td", "th"})
_ENDS: Final = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in (*sorted(_HIDDEN), "title", "textarea")
}


def visible_text(markup: str) -> tuple[str, str | None]:
    """Return the text that a reader sees, blocks on lines of their own, and the `<title>`, None without one.

    Scripts, styles, templates and comments are left out; one that is not closed hides the rest. Entities are decoded.
    Line ends are line feeds.
    """
    page = _Page(markup)
    at = 0
    while (opens := markup.find("<", at)) >= 0:
        page.say(markup[at:opens])
        at = page.behind_markup(opens)
    page.say(markup[at:])
    return page.text(), page.title


@dataclass(slots=True)
class _Page:
    markup: str
    title: str | None = None
    _parts: list[str] = field(default_factory=list)
    _templates: int = 0
    _verbatim: int = 0
    _ends_in_space: bool = True

    def text(self) -> str:
        """Return what was said, without blank lines at the ends."""
        return "\n".join(line.rstrip(" ") for line in "".join(self._parts).split("\n")).strip("\n")

    def say(self, raw: str) -> None:
        """Add text; runs of white space are one space, none at the start of a line."""
        if not raw or self._templates:
            return
        if self._verbatim:
            self._parts.append(_decoded(raw))
            self._ends_in_space = False
            return
        said = _SPACE.sub(" ", _decoded(_SPACE.sub(" ", raw)))
        said = said[1:] if self._ends_in_space and said.startswith(" ") else said
        if said:
            self._parts.append(said)
            self._ends_in_space = said.endswith(" ")

    def behind_markup(self, opens: int) -> int:
        """Read what a `<` opens, if it opens anything, and return where it ends."""
        if self.markup.startswith("<!--", opens):
            empty = next((mark for mark in (">", "->") if self.markup.startswith(mark, opens + 4)), None)
            return opens + 4 + len(empty) if empty else self._behind("-->", opens + 4)
        if self.markup.startswith(("<!", "<?"), opens):
            return self._behind(">", opens + 2)
        name = _TAG_NAME.match(self.markup, opens + 1)
        if name is None:
            self.say("<")
            return opens + 1
        end = _BEHIND_TAG_NAME.match(self.markup, name.end())
        if end is None:  # a tag that never ends is no text
            return len(self.markup)
        return self._take_tag(name[2].lower(), end.end(), closes=bool(name[1]))

    def _take_tag(self, name: str, at: int, *, closes: bool) -> int:
        if name == "template":
            self._templates = max(0, self._templates + (-1 if closes else 1))
        elif name in _BLOCKS:
            self._end_line(is_break=name == "br")
            self._verbatim = max(0, self._verbatim + (-1 if closes else 1)) if name == "pre" else self._verbatim
        elif name in _CELLS:
            self.say(" ")
        elif name in _ENDS and not closes:
            return self._take_content(name, at)
        return at

    def _take_content(self, name: str, at: int) -> int:
        """Pass over what holds no tags: hidden, a title, or text to edit."""
        found = _ENDS[name].search(self.markup, at)
        end = found.start() if found else len(self.markup)
        if name == "title" and self.title is None and not self._templates:
            self.title = _SPACE.sub(" ", _decoded(self.markup[at:end])).strip() or None
        elif name == "textarea":
            self.say(self.markup[at:end])
        return end

    def _end_line(self, *, is_break: bool) -> None:
        if self._templates or not self._parts or (self._parts[-1].endswith("\n") and not is_break):
            return
        self._parts.append("\n")
        self._ends_in_space = True

    def _behind(self, mark: str, at: int) -> int:
        found = self.markup.find(mark, at)
        return len(self.markup) if found < 0 else found + len(mark)


def _decoded(text: str) -> str:
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text) if "&" in text else text
