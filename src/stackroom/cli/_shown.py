"""What people see: hits, sources and passages on a terminal of any width, with or without colour."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from dataclasses import is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stackroom import lexical_tokens, snippet_around
from stackroom.text import index_terms, query_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from stackroom import Answer, Hit, SourceInfo

_RUN: Final = re.compile(r"\S+")
_SMALL_WORD: Final = 3
_LONGEST_SNIPPET: Final = 400  # a text without white space comes back whole
_DOT: Final = "  ·  "


def output_console() -> Console:
    """Return a console for results: what is stored is text there, never markup."""
    return Console(markup=False, emoji=False, highlight=False)


def show(*renderables: RenderableType) -> None:
    """Print results one below the other; without the spaces that fill up lines, unless it is a terminal."""
    console = output_console()
    if console.is_terminal:
        console.print(*renderables, sep="\n")
        return
    with console.capture() as written:
        console.print(*renderables, sep="\n")
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in written.get().splitlines()))


def message_console() -> Console:
    """Return a console on stderr, for what is no result."""
    return Console(stderr=True, markup=False, emoji=False, highlight=False)


def visible(text: str) -> str:
    """Return `text` with every character replaced that could steer a terminal, but for line feed and tab."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(character) == "Cc" and character not in "\n\t"
        else character
        for character in text
    )


def one_line(text: str) -> str:
    """Return `text` as one line that is safe to print."""
    return visible(" ".join(text.split()))


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document on stdout, in ASCII where stdout cannot show more."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    written = json.dumps(document, ensure_ascii=encoding != "utf8", indent=2, default=_as_json)
    sys.stdout.write(written + "\n")


def _as_json(value: object) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if hasattr(value, "keys"):
        return dict(value)  # type: ignore[call-overload] # a mapping that json does not know
    raise TypeError(f"{type(value).__name__} has no JSON form")


# Places


def clock_time(milliseconds: int) -> str:
    """Return mm:ss, or h:mm:ss from an hour on."""
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def place_of(hit: Hit) -> str:
    """Return where in its source a passage stands: time and speaker, or heading, or its number from 1."""
    start, end = hit.metadata.get("startMs"), hit.metadata.get("endMs")
    speaker, heading = hit.metadata.get("speaker"), hit.metadata.get("heading")
    if isinstance(start, int):
        times = clock_time(start) if not isinstance(end, int) else f"{clock_time(start)}–{clock_time(end)}"
        return f"{times} {visible(speaker)}" if isinstance(speaker, str) else times
    return visible(heading) if isinstance(heading, str) else f"passage {hit.index + 1}"


# Hits


def show_answer(answer: Answer, query: str, *, prefix: bool) -> None:
    """Print the hits of a search, or that there are none, and its notes."""
    hits = [_hit(rank, hit, query, prefix=prefix) for rank, hit in enumerate(answer, start=1)]
    show(*hits or ["nothing found in this scope"])
    for note in answer.notes:
        message_console().print(f"note: {note.message}", style="dim")


def _hit(rank: int, hit: Hit, query: str, *, prefix: bool) -> RenderableType:
    head = Table.grid(expand=True, padding=(0, 1))
    head.add_column(justify="right", width=3, style="dim")
    head.add_column(ratio=1, overflow="fold")
    head.add_column(justify="right", no_wrap=True)
    title = Text(visible(hit.title or hit.source_id), style="bold")
    head.add_row(Text(f"{rank}."), title, Text(f"{hit.score:.4f}", style="green"))
    where = [visible(hit.id), place_of(hit), *([f"in {visible(hit.folder_id)}"] if hit.folder_id else [])]
    where += [f"tagged {', '.join(visible(tag) for tag in hit.tags)}"] if hit.tags else []
    body = Group(Text(_DOT.join(where), style="cyan", overflow="fold"), highlighted(hit.text, query, prefix=prefix))
    return Group(head, Padding(body, (0, 0, 1, 4)))


def highlighted(text: str, query: str, *, prefix: bool = False, before: int = 80, after: int = 160) -> Text:
    """Return the text's snippet around the query's words, those in bold; an ellipsis shows where text is left out."""
    words = lexical_tokens(query)
    # Small words stand everywhere; what surrounds them says little.
    long_words = [word for word in words if len(word) > _SMALL_WORD or not word.isascii()]
    snippet = snippet_around(text, long_words, before=before, after=after)
    if snippet.at < 0:
        snippet = snippet_around(text, words, before=before, after=after)
    marked = Text(visible(snippet.text), overflow="fold")
    for start, end in _marks(marked.plain, query, words, prefix=prefix):
        marked.stylize("bold yellow", start, end)
    start = max(0, marked.spans[0].start - before) if marked.spans and len(marked) > _LONGEST_SNIPPET else 0
    shown = marked[start : start + _LONGEST_SNIPPET]
    whole = visible(" ".join(text.split()))
    opening = "" if whole.startswith(shown.plain) else "… "
    return Text.assemble(opening, shown, "" if whole.endswith(shown.plain) else " …", overflow="fold")


def _marks(text: str, query: str, words: Sequence[str], *, prefix: bool) -> Iterator[tuple[int, int]]:
    """Yield where words of the text stand that the query asks for, as the index sees them."""
    asked = query_terms(query)
    for run in _RUN.finditer(text):
        if _is_found(run[0], asked, prefix=prefix):
            places = _places(run[0], asked) or _places(run[0], words) or [(0, len(run[0]))]
            yield from ((run.start() + start, run.start() + end) for start, end in places)


def _is_found(run: str, asked: Sequence[str], *, prefix: bool) -> bool:
    terms = index_terms(run)
    if prefix:
        return any(term.startswith(tuple(asked)) for term in terms)
    return not set(terms).isdisjoint(asked)


def _places(run: str, words: Iterable[str]) -> list[tuple[int, int]]:
    """Return where words stand to the letter in a run of the text; none when lower case moves its characters."""
    lowered = run.lower()
    if len(lowered) != len(run):
        return []
    return [found.span() for word in words for found in re.finditer(re.escape(word), lowered)]


# Sources


def show_sources(sources: Iterable[SourceInfo], following: str | None) -> None:
    """Print a page of sources as a table, and how to go on."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("source", "title", "kind", "folder", "tags", "groups"):
        table.add_column(name, overflow="fold")
    table.add_column("passages", justify="right")
    for info in sources:
        cells = (info.source_id, info.title or "", info.kind, info.folder_id or "")
        lists = (", ".join(info.tags), ", ".join(info.acl_groups))
        table.add_row(*(Text(visible(cell)) for cell in (*cells, *lists)), str(info.passages))
    show(table if table.row_count else "no source in this scope")
    if following is not None:
        output_console().print(f"more: add --after {following}", soft_wrap=True)


def show_source(info: SourceInfo, passages: Sequence[Hit]) -> None:
    """Print what is known of a source, then its passages, each with its place."""
    show(Text(visible(info.title or info.source_id), style="bold"), properties_table(_properties(info)))
    for passage in passages:
        head = Text(f"#{passage.index}{_DOT}{place_of(passage)}", style="cyan")
        show("", head, Text(visible(passage.text), overflow="fold"))


def _properties(info: SourceInfo) -> Iterator[tuple[str, str]]:
    yield "source", info.source_id
    yield "kind", info.kind
    yield "groups", ", ".join(info.acl_groups)
    yield "folder", info.folder_id or "none"
    yield "tags", ", ".join(info.tags) or "none"
    yield "tier", info.tier or "none"
    yield "passages", str(info.passages)
    yield "created", info.created_at.isoformat(timespec="seconds")
    yield "updated", info.updated_at.isoformat(timespec="seconds")
    if info.expires_at is not None:
        yield "expires", info.expires_at.isoformat(timespec="seconds")
    for key, value in info.metadata.items():
        yield key, str(value)


def properties_table(properties: Iterable[tuple[str, str]]) -> Table:
    """Return names and values in two columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in properties:
        table.add_row(Text(visible(name)), Text(visible(value)))
    return table
