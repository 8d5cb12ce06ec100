"""The examples of the help texts: they run, in this order, where `notes/` holds the files of NOTES."""

from __future__ import annotations

from typing import Final

NOTES: Final = {
    "budget.md": """\
# Budget

The spring budget is three million.

## Hiring
We hire two engineers before we launch.
""",
    "kickoff.vtt": """\
WEBVTT

00:00.000 --> 00:03.000
<v Ann>When do we launch? In May &amp; in public.

01:03.000 --> 01:07.000
<v Ann>The budget was approved.
""",
    ".queries": """\
{"_id": "1", "text": "when do we launch"}
{"_id": "2", "text": "spring budget"}
""",
    ".qrels": """\
query-id\tcorpus-id\tscore
1\tkickoff.vtt\t1
2\tbudget.md\t1
""",
}
"""What the directory `notes/` of the examples holds: texts by file name."""

COMMANDS: Final = {
    "stackroom": (
        "stackroom index notes --tenant acme --group staff",
        'stackroom search "spring budget" --tenant acme --group staff',
    ),
    "index": (
        "stackroom index notes --tenant acme --group staff --folder handbook",
        "stackroom index notes/budget.md --tenant acme --group board --tag finance",
        "stackroom index notes/kickoff.vtt --tenant acme --group staff --kind meeting",
    ),
    "search": (
        'stackroom search "when do we launch" --tenant acme --group staff',
        "stackroom search budg --tenant acme --group board --mode lexical --prefix",
        "stackroom search launch --tenant acme --group staff --kind meeting --json",
    ),
    "sources": (
        "stackroom sources --tenant acme --group staff --group board",
        "stackroom sources --tenant acme --group board --tag finance --json",
    ),
    "show": ("stackroom show kickoff.vtt --tenant acme --group staff",),
    "rescope": (
        "stackroom rescope budget.md --tenant acme --group staff --group board",
        'stackroom rescope budget.md --tenant acme --folder plans --title "Budget 2027"',
        "stackroom rescope budget.md --tenant acme --no-folder --no-tags",
    ),
    "info": ("stackroom info", "stackroom info --tenant acme --json"),
    "doctor": ("stackroom doctor", "stackroom doctor --json"),
    "compact": ("stackroom compact",),
    "verify-embedder": ("stackroom verify-embedder", "stackroom verify-embedder --sample 10 --json"),
    "copy": ("stackroom copy library another", "stackroom copy library another --to second"),
    "export": ("stackroom export library library.stackroom",),
    "import": ("stackroom import library.stackroom restored",),
    "leak-test": ("stackroom leak-test", "stackroom leak-test --others 100 --json"),
    "check-store": ("stackroom check-store library --only swap", "stackroom check-store memory: --only row_20"),
    "eval": ("stackroom eval library notes/.queries notes/.qrels --tenant acme --group staff",),
    "reembed": ("stackroom reembed hashing:128",),
    "remove": ("stackroom remove budget.md --tenant acme",),
    "remove-tenant": ("stackroom remove-tenant acme --yes",),
}
"""Command lines by command, and under `stackroom` those of the whole program."""

EXAMPLES: Final = {
    command: "Examples:\n\n" + "\n".join(f"  {line}" for line in lines) for command, lines in COMMANDS.items()
}
"""The Examples block of each help text."""
