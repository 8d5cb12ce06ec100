"""docs/cli.md, made from the help of the commands: run ``python -m stackroom.cli.docs`` in a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from stackroom.cli._app import app
from stackroom.cli._examples import COMMANDS, NOTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyclopts import Argument

_INTRODUCTION: Final = """\
# The command line

Stackroom is not on PyPI yet: what is installed here is a checkout, in whose directory pip runs.

`pip install ".[cli,local]"` brings the command `stackroom`; of its commands `check-store` needs the extra `testing` as
well, `eval` the extra `eval`, a library in PostgreSQL the extra `postgres`, in another SQL database `sql` or `mysql`:
`pip install ".[cli,local,testing,eval]"`.

It works on the library that `--library` names, else the environment's `STACKROOM_LIBRARY`, else the one in `./library`.
`stackroom index` makes it when it is missing and there is a source to write; no other command does, and each refuses a
directory without one untouched.

* **Where a library is.** Its directory, also written `embedded:DIRECTORY` (`./NAME` when the name has a colon); or a
  database, `postgresql://…`, with the driver's options behind the `?`, and these: `schema` (public), `prefix`
  (stackroom_), `lock_timeout` (seconds that a write waits for others; 30), `pool_size` (connections; 10),
  `row_level_security` (true or false: the database keeps every scope as well), `manage_schema` (false: make no tables),
  `exact` (true: compare all vectors). [More of them](stores/postgres.md#on-the-command-line). Or any other SQL
  database, `sql:` and a URL of SQLAlchemy: `sql:sqlite:///library.db`, `sql:mysql://…`
  ([more](stores/sql.md#use)). Or [Qdrant](stores/qdrant.md#use), `qdrant://HOST`; [Neo4j](stores/neo4j.md#use),
  `neo4j://USER:PASSWORD@HOST`; [LanceDB](stores/lance.md#use), `lance:DIRECTORY`. The same goes for the arguments FROM,
  TO, LIBRARY and STORE.

* **Scope.** Whatever reads names a tenant and at least one group, whatever writes a tenant. Nothing widens that.
* **Sources.** A file is a source. Its id is its path relative to the directory that was given (`guides/setup.md`), or
  its name when it was given by itself. Text and Markdown are cut at headings and sentences, WebVTT and SubRip
  transcripts between their cues; a passage of a transcript has a `speaker` in its metadata, and shows one, when all its
  cues agree on who speaks. Text is UTF-8, or what `--encoding` names, or UTF-16 with a byte order mark; a file
  that is anything else is skipped and said. Directories that hold a library are left out.
* **Embedders.** `local` is a small model that a package carries, `hashing` needs none and knows only words. A library
  belongs to the embedder that it was made with, and that one is taken when neither `--embedder` nor the environment's
  `STACKROOM_EMBEDDER` names another. Listings, removals and lexical searches embed nothing, so they need none.
* **Replacing.** A source that is indexed again is replaced whole; its groups, folder, tags, kind, title and tier are
  then those of the last call. A file that was deleted from a directory stays in the library until `stackroom index`
  of that directory has `--prune`, or `stackroom remove` takes it out. What `stackroom rescope` and `stackroom remove`
  did to a source that comes from a directory lasts until that directory is indexed again: the source has the
  directory's groups, folder and tags then, and comes again while its file is there.
* **Output.** `--json` prints one JSON document on stdout. Progress, notes and errors go to stderr. In a pipe nothing is
  folded or shortened, and `stackroom sources` writes a line of tab-separated cells for each source, below one with
  their names: `stackroom sources … | tail -n +2 | cut -f 1` lists the ids. Where people read, characters that steer a
  terminal, break a line or turn the direction of writing show as substitutes (`␊`, `\\u202e`); JSON holds what is
  stored.
* **Exit codes.** 0 done; 1 failed, or some file was not indexed though it should have been (an empty one is no
  failure), or stdout is closed (nothing is done then); 2 the command line was not understood; 130 interrupted. What
  was written by then stays.

The examples run as they stand, in this order, with the extras `cli`, `local`, `testing` and `eval`, where a directory
`notes` holds these files:

"""


def page() -> str:
    """Return the page docs/cli.md."""
    return _INTRODUCTION + "\n".join(
        [*_files(), *(line for name in COMMANDS if name in app for line in _section(name))]
    )


def _files() -> Iterator[str]:
    """Yield the lines of a shell that write the files of the examples."""
    yield from ("```sh", "mkdir -p notes")
    for name, text in NOTES.items():
        yield from (f"cat > notes/{name} <<'END'", *text.splitlines(), "END")
    yield from ("```", "")


def _section(name: str) -> Iterator[str]:
    """Yield the lines of one command: what it does, how it is called, what it takes, examples."""
    arguments = app[name].assemble_argument_collection()
    yield from (f"## stackroom {name}", "", app[name].help.strip(), "")
    yield from ("| argument | meaning |", "|---|---|")
    yield from (_row(argument) for argument in sorted(arguments, key=_is_optional))
    yield from ("", "```console", *(f"$ {line}" for line in COMMANDS[name]), "```", "")


def _is_optional(argument: Argument) -> bool:
    return not argument.required


def _row(argument: Argument) -> str:
    parameter = argument.parameter
    choices = argument.get_choices()
    value = "|".join(choices) if choices else parameter.metavar
    name = argument.names[0]
    call = f"{name} {value}" if value and name.startswith("-") else name
    return f"| `{call.replace('|', chr(92) + '|')}` | {parameter.help}{_needed_or_default(argument)} |"


def _needed_or_default(argument: Argument) -> str:
    shown = argument.parameter.show_default
    if argument.required:
        return " Needed."
    if shown is False:
        return ""
    return f" Default: {shown if isinstance(shown, str) else argument.field_info.default}."


if __name__ == "__main__":
    Path("docs/cli.md").write_text(page(), encoding="utf-8")
