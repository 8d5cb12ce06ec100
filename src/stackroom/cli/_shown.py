"""What people see: hits, sources and passages on a terminal of any width, and one line a row in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from stackroom.cli._listing import listed, tab_separated
from stackroom.cli._snippets import snippet_of
from stackroom.cli._visible import in_a_cell, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType

    from stackroom import Answer, Hit, SourceInfo
    from stackroom.auditing import DoorReport

_TEXTS_OF_A_DOOR: Final = 2
_DOT: Final = "  ·  "
_NO_EDGE: Final = 10**9  # in a pipe there is no edge at which a line would have to be folded
_SIZES: Final = ("B", "kB", "MB", "GB", "TB")
_ONE_DIGIT: Final = 9.95  # from here on a size is rounded to a whole number
_NEXT_SIZE: Final = 999.5


def output_console() -> Console:
    """Return a console for results: what is stored is text there, never markup."""
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _NO_EDGE
    return console


def show(*renderables: RenderableType) -> None:
    """Print results one below the other; in a pipe no line is folded, and none ends with spaces."""
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


def progress(*, quiet: bool) -> Progress:
    """Return a bar of how much is done, shown on a terminal while it lasts, and nowhere else."""
    console = message_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)


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
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def counted(number: int, noun: str) -> str:
    """Return a number of things, such as "1 source" or "1,200 sources"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_of(number: int) -> str:
    """Return a number of bytes in the unit that shows it best: 812 B, 12 kB, 3.4 MB (of 1,000 kB)."""
    size, unit = float(number), 0
    while size >= _NEXT_SIZE and unit < len(_SIZES) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {_SIZES[unit]}" if unit and size < _ONE_DIGIT else f"{size:,.0f} {_SIZES[unit]}"


# Places


def clock_time(milliseconds: int) -> str:
    """Return mm:ss, or h:mm:ss from an hour on."""
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def place_of(hit: Hit) -> str:
    """Return where in its source a passage stands: time, or heading, or its number from 1; and the one who speaks."""
    speaker = hit.metadata.get("speaker")
    place = _time_or_heading(hit)
    return f"{place} {in_a_cell(speaker)}" if isinstance(speaker, str) else place


def _time_or_heading(hit: Hit) -> str:
    start, end, heading = (hit.metadata.get(key) for key in ("startMs", "endMs", "heading"))
    if isinstance(start, int):
        return clock_time(start) if not isinstance(end, int) else f"{clock_time(start)}–{clock_time(end)}"
    return in_a_cell(heading) if isinstance(heading, str) else f"passage {hit.index + 1}"


# Hits


def show_answer(answer: Answer, query: str, *, prefix: bool) -> None:
    """Print the hits of a search, or that there are none, and its notes."""
    is_terminal = output_console().is_terminal
    hits: list[RenderableType] = [
        Group(_head(rank, hit, fills_line=is_terminal), _body(hit, query, prefix=prefix))
        for rank, hit in enumerate(answer, start=1)
    ]
    show(*hits or ["nothing found in this scope"])
    for note in answer.notes:
        message_console().print(f"note: {note.message}", style="dim")


def _head(rank: int, hit: Hit, *, fills_line: bool) -> RenderableType:
    head = Table.grid(expand=fills_line, padding=(0, 1 if fills_line else 2))
    head.add_column(justify="right", width=3, style="dim")
    head.add_column(ratio=1 if fills_line else None, overflow="fold")
    head.add_column(justify="right", no_wrap=True)
    title = Text(in_a_cell(hit.title or hit.source_id), style="bold")
    head.add_row(Text(f"{rank}."), title, Text(f"{hit.score:.4f}", style="green"))
    return head


def _body(hit: Hit, query: str, *, prefix: bool) -> RenderableType:
    where = [in_a_cell(hit.id), place_of(hit), *([f"in {in_a_cell(hit.folder_id)}"] if hit.folder_id else [])]
    where += [f"tagged {', '.join(in_a_cell(tag) for tag in hit.tags)}"] if hit.tags else []
    known = {heading for heading in (hit.title, hit.metadata.get("heading")) if isinstance(heading, str)}
    snippet = snippet_of(hit.text, query, prefix=prefix, known=known)
    lines = Group(Text(_DOT.join(where), style="cyan", overflow="fold"), snippet)
    return Padding(lines, (0, 0, 1, 4), expand=False)


# Sources


def show_sources(sources: Sequence[SourceInfo], following: str | None) -> None:
    """Print a page of sources as a table, and on stderr how to go on."""
    console = output_console()
    if not sources:
        show("no source in this scope")
    elif console.is_terminal:
        show(listed(sources, console.width))
    else:
        sys.stdout.write(tab_separated(sources))
    if following is not None:
        message_console().print(f"more: add --after {following}", soft_wrap=True)


def show_source(info: SourceInfo, passages: Sequence[Hit]) -> None:
    """Print what is known of a source, then its passages, each with its place."""
    show(Text(in_a_cell(info.title or info.source_id), style="bold"), properties_table(_properties(info)))
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


# A leak test


def leak_table(doors: Sequence[DoorReport]) -> Table:
    """Return a line for each door and mode of a leak test."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, name in enumerate(("door", "mode", "calls", "leak rate", "recall", "dropped")):
        table.add_column(name, justify="left" if place < _TEXTS_OF_A_DOOR else "right")
    for door in doors:
        recall = "refused" if door.is_refused else "-" if door.recall is None else f"{door.recall:.4f}"
        numbers = (f"{door.calls:,}", f"{door.leak_rate:.4f}", recall, f"{door.dropped:,}")
        table.add_row(Text(door.door), Text(door.mode or ""), *map(Text, numbers))
    return table


def properties_table(properties: Iterable[tuple[str, str]]) -> Table:
    """Return names and values in two columns, a line for each where the terminal is wide enough."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in properties:
        table.add_row(Text(in_a_cell(name)), Text(in_a_cell(value)))
    return table
