"""A tour of Stackroom on real text: two companies, three people, one question, three answers.

It indexes the documentation of Python and of Stackroom and a meeting, asks the same questions as three people,
re-scopes, replaces and removes sources, and ends with commands to go on with. Run it from a checkout:
``python examples/demo.py``. It makes ./demo-library anew each time, takes some seconds, and needs no network.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from stackroom import (
    Answer,
    Hit,
    Library,
    Passage,
    Scope,
    Source,
    Turn,
    chunk_document,
    chunk_turns,
    lexical_tokens,
    snippet_around,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType

    from stackroom.embedders import Embedder

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
MEETING: Final = "meetings/leads-weekly.vtt"
ROADMAP: Final = "roadmap.md"

_MODULES: Final = """\
security: secrets hashlib hmac ssl getpass random uuid binascii

data: json csv configparser tomllib pickle shelve sqlite3 dbm plistlib struct codecs copy pprint enum dataclasses
types collections collections.abc heapq bisect array weakref graphlib decimal fractions statistics math cmath numbers
itertools functools operator contextlib abc

files: pathlib os os.path shutil tempfile glob fnmatch fileinput filecmp stat io zipfile tarfile gzip bz2 lzma zlib
mimetypes linecache

text: string re difflib textwrap unicodedata stringprep html html.parser html.entities xml.etree.ElementTree xml.sax
xml.dom.minidom gettext locale shlex base64 quopri email email.message email.parser email.policy email.header
email.utils

network: socket socketserver selectors http http.client http.server http.cookies http.cookiejar urllib.request
urllib.parse urllib.error urllib.robotparser ftplib poplib imaplib smtplib ipaddress xmlrpc.client xmlrpc.server
wsgiref.simple_server wsgiref.util

time: time datetime calendar zoneinfo sched

concurrency: threading multiprocessing multiprocessing.pool multiprocessing.shared_memory concurrent.futures
subprocess queue asyncio asyncio.events asyncio.locks asyncio.streams asyncio.subprocess asyncio.tasks contextvars
signal

tools: argparse logging logging.config logging.handlers unittest unittest.mock doctest pdb profile cProfile pstats
timeit trace tracemalloc gc inspect ast dis tokenize symtable compileall importlib importlib.resources
importlib.metadata pkgutil runpy zipapp venv platform sysconfig warnings traceback atexit cmd code codeop optparse
errno ctypes
"""
MODULES: Final[Mapping[str, Sequence[str]]] = {
    folder: names.split() for folder, _, names in (part.partition(":") for part in _MODULES.split("\n\n"))
}
"""The modules of the standard library whose documentation is indexed, by folder."""

NORTHWIND_ROADMAP: Final = """# Road map of Northwind

## Launch
We launch the document search in spring. The exact date will be announced.

## After the launch
In the third quarter we look at names with wrong letters, and at the text recognition of old typefaces.

## What we will not do
We do not train models on the text of customers, and we sell no advertising.
"""
FABRIKAM_ROADMAP: Final = """# Road map of Fabrikam

## Launch
We launch the new warehouse scanner on the third of September, first in Rotterdam.

## After the launch
The old scanners are collected and recycled by the end of the year.
"""


class Person(NamedTuple):
    """Somebody who asks: a name for us, a scope for the library."""

    name: str
    scope: Scope


MIA: Final = Person("Mia", Scope("northwind", ["staff", "leads"]))
TOM: Final = Person("Tom", Scope("northwind", ["staff", "security"]))
ZOE: Final = Person("Zoe", Scope("fabrikam", ["staff"]))
PEOPLE: Final = (MIA, TOM, ZOE)

LAUNCH: Final = "When do we launch?"
QUESTIONS: Final[Mapping[str, str]] = {
    LAUNCH: (
        "Notice: Mia is a lead, so she finds what was said in the leads' meeting; Tom finds the road map, which names "
        "no date. Zoe works elsewhere: the same question, another launch."
    ),
    "Which random numbers are safe for passwords?": (
        "Notice: the module secrets answers it, and only the group security may see that. It is Tom's first hit; the "
        "others get the best of what they may see, and no hint that there is more."
    ),
    "A document was deleted and came back. Why?": (
        "Notice: the reason was said in the leads' meeting and stands nowhere else. It is Mia's first hit; for Tom and "
        "Zoe there is no such meeting."
    ),
}
"""What is asked, and what to notice about the answers."""
HITS: Final = 3


# Sources


def document(source_id: str, text: str, tenant_id: str, groups: Sequence[str], **more: str) -> Source:
    """Make a source of a Markdown text; its first line is its title."""
    return Source(
        source_id=source_id,
        kind="document",
        tenant_id=tenant_id,
        acl_groups=groups,
        passages=[Passage(chunk.text, chunk.metadata) for chunk in chunk_document(text)],
        title=text.partition("\n")[0].lstrip("# "),
        folder_id=more.get("folder"),
        tags=more.get("tags", "").split(),
    )


def meeting() -> Source:
    """Make a source of the sample meeting: a turn for every cue, and passages of whole turns."""
    blocks = (DOCS / "sample-meeting.vtt").read_text(encoding="utf-8").split("\n\n")
    cues = [block.strip().split("\n") for block in blocks if "-->" in block]
    turns = []
    for number, (times, said) in enumerate(cues, start=1):
        speaker, _, text = said.removeprefix("<v ").partition(">")
        start, end = (milliseconds(moment) for moment in times.split(" --> "))
        turns.append(Turn(number, f"cue-{number}", text, start, end, speaker))
    return Source(
        source_id=MEETING,
        kind="meeting",
        tenant_id="northwind",
        acl_groups=["leads"],
        passages=[Passage(chunk.text, chunk.metadata) for chunk in chunk_turns(turns, max_chars=600)],
        title="Weekly of the leads",
        folder_id="meetings",
        tags=["confidential"],
    )


def milliseconds(moment: str) -> int:
    """Read a time such as 00:01:02.500."""
    hours, minutes, seconds = moment.split(":")
    return round((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000)


def all_sources(modules: Mapping[str, Sequence[str]]) -> Iterator[Source]:
    """Yield everything that the two companies hold."""
    yield document(ROADMAP, NORTHWIND_ROADMAP, "northwind", ["staff"], folder="plans", tags="roadmap")
    yield document(ROADMAP, FABRIKAM_ROADMAP, "fabrikam", ["staff"], folder="plans", tags="roadmap")
    yield meeting()
    for path in sorted(set(DOCS.glob("*.md")) - {DOCS / "cli.md"}):  # tables of options make poor reading
        text = path.read_text(encoding="utf-8")
        yield document(f"docs/{path.name}", text, "northwind", ["staff"], folder="docs", tags="stackroom")
    for folder, names in modules.items():
        groups = ["security"] if folder == "security" else ["staff"]
        for name in names:
            text = documentation(name)
            if text:
                place = {"folder": f"python/{folder}", "tags": "python"}
                yield document(f"python/{name}", text, "northwind", groups, **place)
                if folder in {"time", "text"}:
                    yield document(f"python/{name}", text, "fabrikam", ["staff"], **place)


def documentation(name: str) -> str:
    """Return a module's documentation strings as Markdown; nothing when this Python does not have it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
    except ImportError:
        return ""
    sections = [f"# {name}\n\n{inspect.getdoc(module) or ''}"]
    sections += [f"## {title}\n\n{text}" for title, text in documented_members(module)]
    return "\n\n".join(sections).replace("\0", "")


def documented_members(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the name and documentation of a module's own public classes, their methods, and functions."""
    homes = {module.__name__, f"_{module.__name__}", "posix", "nt"}  # where C code says that it lives
    for name, member in sorted(vars(module).items()):
        is_ours = getattr(member, "__module__", None) in homes
        if name.startswith("_") or not is_ours or not (inspect.isclass(member) or inspect.isroutine(member)):
            continue
        if text := inspect.getdoc(member):
            yield f"{module.__name__}.{name}", text
        if inspect.isclass(member):
            for method_name, method in vars(member).items():
                if not method_name.startswith("_") and inspect.isroutine(method) and (text := inspect.getdoc(method)):
                    yield f"{name}.{method_name}", text


# Acts


def index_everything(library: Library, sources: Sequence[Source], console: Console) -> None:
    """Index the sources one by one, with a bar that shows how far it is."""
    began, passages = time.perf_counter(), 0
    columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[title]}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(sources), title="")
        for source in sources:
            passages += library.index_source(source).passages
            progress.update(task, advance=1, title=source.title)
    seconds = time.perf_counter() - began
    console.print(f"indexed {len(sources):,} sources, {passages:,} passages in {seconds:.1f} s")
    for tenant in sorted({source.tenant_id for source in sources}):
        groups = sorted({group for source in sources if source.tenant_id == tenant for group in source.acl_groups})
        number = sum(source.tenant_id == tenant for source in sources)
        console.print(f"  {tenant:<10} {number:>4} sources, groups {', '.join(groups)}")


def ask(library: Library, question: str, people: Sequence[Person], console: Console) -> None:
    """Ask a question as each of some people and show the answers side by side."""
    answers = {label(person): library.search(question, scope=person.scope, top_k=4 * HITS) for person in people}
    show(question, answers, console)


def label(person: Person) -> str:
    """Say who asks, and what the library goes by."""
    return f"{person.name}, {person.scope.tenant_id}\n{' + '.join(person.scope.acl_groups)}"


def show(question: str, answers: Mapping[str, Answer], console: Console) -> None:
    """Show the best hits of answers side by side, each under its label."""
    table = Table(expand=True, border_style="dim", title=Text(question, "bold"), title_justify="left")
    for name in answers:
        table.add_column(Text(name), ratio=1, overflow="fold")
    table.add_row(*(Text("\n\n").join(distinct(answer, question)[:HITS]) for answer in answers.values()))
    console.print(table)


def distinct(answer: Answer, question: str) -> list[Text]:
    """Show hits, but no text twice: documentation repeats itself."""
    snippets: dict[str, Hit] = {}
    for hit in answer:
        snippets.setdefault(snippet(hit, question), hit)
    return [shown(hit, said, question) for said, hit in snippets.items()]


def snippet(hit: Hit, question: str) -> str:
    """Return the text around the words looked for; without headings, which stand beside it."""
    lines = [line for line in hit.text.splitlines() if not line.startswith(("#", "```"))]
    return snippet_around("\n".join(lines), telling_words(question), before=40, after=110).text


def telling_words(question: str) -> list[str]:
    """Return the longer words of a question; the others say little."""
    return [word for word in lexical_tokens(question) if len(word) > 3]  # noqa: PLR2004 - a word such as "and"


def shown(hit: Hit, said: str, question: str) -> Text:
    """Show a hit: its title, its place, and what is said there."""
    text = Text.assemble((hit.title or hit.source_id, "bold"), "\n", (place(hit), "cyan"), "\n", said)
    for word in telling_words(question):
        text.highlight_regex(rf"(?i)\b{re.escape(word)}\b", "yellow")
    return text


def place(hit: Hit) -> str:
    """Say where a passage stands: its time in a meeting, its heading in a document."""
    start, heading = hit.metadata.get("startMs"), hit.metadata.get("heading")
    if isinstance(start, int):
        return f"{hit.source_id} at {start // 60_000:02}:{start // 1000 % 60:02}"
    return f"{hit.id} {heading if heading != hit.title else ''}".rstrip()


def act(console: Console, title: str) -> None:
    """Begin the next part."""
    console.print()
    console.rule(title, align="left", style="dim")


def rescope(library: Library, console: Console) -> None:
    """Open the meeting to all of the company, and ask again."""
    act(console, "1. Re-scope: the recording of the leads' weekly is opened to the staff")
    before = library.search(LAUNCH, scope=TOM.scope)
    changed = library.set_source_scope(MEETING, tenant_id="northwind", acl_groups=["leads", "staff"])
    after = library.search(LAUNCH, scope=TOM.scope)
    console.print(f"set_source_scope(acl_groups=[leads, staff]): {changed} passages, nothing embedded")
    console.print("Notice: the next search goes by the new groups, and Tom finds the meeting.")
    console.print()
    show(LAUNCH, {"Tom, before": before, "Tom, after": after}, console)


def replace(library: Library, console: Console) -> None:
    """Replace the road map by a version in which one section is new."""
    act(console, "2. Replace: Northwind announces the date in its road map")
    text = NORTHWIND_ROADMAP.replace(
        "in spring. The exact date will be announced.", "on Tuesday, the twelfth of May, at ten o'clock."
    )
    new = document(ROADMAP, text, "northwind", ["staff"], folder="plans", tags="roadmap")
    did = library.index_source(new)
    console.print(
        f"index_source: {did.replaced} passages replaced by {did.passages}, "
        f"{did.embedded} embedded, {did.reused} reused because their text is the same"
    )
    console.print("Fabrikam's source of the same id is another source:")
    for person in (TOM, ZOE):
        passage = library.passages(ROADMAP, scope=person.scope)[0]
        said = Text.assemble((f"{person.name}  ", "bold"), snippet(passage, ""))
        console.print(Padding(said, (0, 0, 0, 2)))


def remove(library: Library, console: Console) -> None:
    """Remove the meeting; nobody finds it any more."""
    act(console, "3. Remove: the recording has to go")
    before = library.count(scope=MIA.scope)
    gone = library.remove_source(MEETING, tenant_id="northwind")
    after = library.count(scope=MIA.scope)
    console.print(f"remove_source: {gone} passages gone; Mia could see {before:,} passages and now sees {after:,}")
    console.print(f"library.source(...) as Mia: {library.source(MEETING, scope=MIA.scope)}")


def go_on(path: Path, console: Console) -> None:
    """Print commands that work on the library just made."""
    act(console, "Go on by hand")
    program = Path(sys.executable).with_name("stackroom")
    command = shortest(program) if program.exists() else f"{shortest(Path(sys.executable))} -m stackroom.cli"
    there = f"--library {shortest(path)}"
    for line in (
        f'search "parse a date" {there} --tenant fabrikam --group staff',
        f'search "hash a password" {there} --tenant northwind --group security --tag python',
        f"sources {there} --tenant northwind --group staff --folder plans --folder docs",
        f"show {ROADMAP} {there} --tenant northwind --group staff",
        f"index {shortest(DOCS / 'sample-meeting.vtt')} {there} --tenant northwind --group leads --kind meeting",
        f'search "what does a seat cost" {there} --tenant northwind --group leads',
        f"info {there} --tenants",
    ):
        console.print(f"  {command} {line}", soft_wrap=True)


def shortest(path: Path) -> str:
    """Return a path as short as one can type it from here."""
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else absolute)


def anew(path: Path, console: Console) -> None:
    """Remove the library of the last run, and say so; leave alone what is no library."""
    if (path / "library.toml").exists():
        console.print(f"{shortest(path)} is there from an earlier run: it is removed and rebuilt")
        shutil.rmtree(path)


def main(
    path: Path = Path("demo-library"),
    modules: Mapping[str, Sequence[str]] = MODULES,
    embedder: Embedder | None = None,
    console: Console | None = None,
) -> None:
    """Index, ask, re-scope, replace, remove, in a library in `path` that is made anew."""
    console = console or Console(markup=False, emoji=False, highlight=False)
    anew(path, console)
    console.print("Reading the documentation of Python, of Stackroom, and a meeting")
    sources = list(all_sources(modules))
    with Library.open(path, embedder=embedder) as library:
        index_everything(library, sources, console)
        act(console, "The same questions, three people")
        for question, notice in QUESTIONS.items():
            console.print(f"\n{notice}\n")
            ask(library, question, PEOPLE, console)
        rescope(library, console)
        replace(library, console)
        remove(library, console)
    go_on(path, console)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
