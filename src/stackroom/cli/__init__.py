"""The command line `stackroom`. Needs the extra `cli`."""

try:
    from stackroom.cli._run import main
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] not in {"cyclopts", "rich"}:
        raise
    raise SystemExit('stackroom: the command line needs its extra: pip install "stackroom[cli]"') from None

__all__ = ["main"]
