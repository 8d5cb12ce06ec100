"""The table of sources: as wide as a terminal, or a line of tab-separated cells for each where nobody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from stackroom.cli._visible import in_a_cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stackroom import SourceInfo

_COLUMNS: Final = ("source", "title", "kind", "folder", "tags", "groups", "passages")
_FIRST_TO_GIVE_WAY: Final = ("tags", "title", "groups", "folder", "kind", "passages")
_GAP: Final = 2


def tab_separated(sources: Sequence[SourceInfo]) -> str:
    """Return a line for each source, its cells whole and separated by tabs, below a line of their names."""
    rows = [_COLUMNS, *(_cells(info) for info in sources)]
    return "".join("\t".join(row) + "\n" for row in rows)


def listed(sources: Sequence[SourceInfo], width: int) -> Table:
    """Return a table of at most `width` cells, a line for each source as long as its id fits.

    Where there is no room for all, tags and titles are shortened first, then the other columns; then columns are left
    out, and last of all ids are folded.
    """
    rows = [_cells(info) for info in sources]
    widths = _widths(rows, width)
    shown = [place for place, name in enumerate(_COLUMNS) if name in widths]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for name in (_COLUMNS[place] for place in shown):
        is_id = name == "source"
        table.add_column(
            name,
            width=widths[name],
            justify="right" if name == "passages" else "left",
            overflow="fold" if is_id else "ellipsis",
            no_wrap=not is_id,
        )
    for row in rows:
        table.add_row(*(Text(row[place]) for place in shown))
    return table


def _cells(info: SourceInfo) -> tuple[str, ...]:
    lists = (", ".join(info.tags), ", ".join(info.acl_groups))
    texts = (info.source_id, info.title or "", info.kind, info.folder_id or "", *lists)
    return (*(in_a_cell(text) for text in texts), str(info.passages))


def _widths(rows: Sequence[Sequence[str]], width: int) -> dict[str, int]:
    """Return how wide each column may be so that all fit; a column that is left out has no width."""
    widths = {name: max(len(name), *(cell_len(row[place]) for row in rows)) for place, name in enumerate(_COLUMNS)}
    for name in _FIRST_TO_GIVE_WAY:
        least = {column: cells if column == "source" else len(column) for column, cells in widths.items()}
        if _excess(least, width):
            del widths[name]
    for name in (name for name in _FIRST_TO_GIVE_WAY if name in widths):
        widths[name] -= min(_excess(widths, width), widths[name] - len(name))
    widths["source"] -= _excess(widths, width)
    return widths


def _excess(widths: dict[str, int], width: int) -> int:
    return max(0, sum(widths.values()) + _GAP * (len(widths) - 1) - width)
