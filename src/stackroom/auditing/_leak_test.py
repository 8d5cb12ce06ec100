"""The leak test: plant, look, remove, report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stackroom import Library
from stackroom._scoping import check_scope
from stackroom.auditing._canaries import Names, Planting, is_in_use
from stackroom.auditing._doors import Audit, callers_of
from stackroom.auditing._hour import Hour
from stackroom.auditing._own import try_own
from stackroom.auditing._removals import ReachesTooFarError, Witnesses, clean_up, left_over, rehearse
from stackroom.auditing._report import LeakReport, problems_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stackroom import Scope


_EMPTY: Final = (
    "the library is empty, or nobody can see what is in it: a test of it would show nothing; index something first"
)


def leak_test(library: Library, *, others: Iterable[Scope] = ()) -> LeakReport:
    """Plant canaries in throw-away tenants of a library, look for them as every kind of caller, and remove them.

    The tenants, groups and source ids are random, and lookalikes of one another: composed and decomposed, in another
    case, with a space behind, one the beginning of another. Some canaries are expired, removed, replaced or re-scoped
    by the time they are looked for. Every door is tried: each mode of search with and without narrowings that name
    what is foreign, listings, single sources, counts. Scopes of the library's own, given as `others`, must see no
    canary, and of their tenant just what an operator sees that they may.

    Green is only a report of which all is true: every door was tried, all that callers may see was found and nothing
    else was shown, the check had nothing to drop, the library holds more than canaries and what has expired, the hour
    that canaries live was not over, and a count finds none left.

    Removals are rehearsed before anything is planted, in a collection `leak-test-…` that is dropped again: if one takes
    more than it is asked to, the report is red and nothing else happens. In the library, nothing more is removed once
    a passage of its own has gone.

    The library is written to as by any other caller, by its own clock, and embeds the canaries and the questions: some
    fifty passages, and some twenty queries a caller. Whatever happens, what was planted is removed; what a process that
    is killed leaves expires within an hour. Errors of the store and the embedder are raised as they are, after the
    removal; what could not be removed then is said in a note of the error. ValueError for what is no Library
    and for a clock at the edge of the years 1 to 9999, ScopeError for others that are no Scopes.
    """
    if not isinstance(library, Library):
        raise ValueError(f"leak_test takes a Library, not {type(library).__name__}")
    scopes = [check_scope(scope) for scope in others]
    hour = Hour.begun(library)
    if not is_in_use(library, hour.begin):
        return _nothing_planted(_EMPTY)
    names, witnesses = Names.drawn(), Witnesses.called(library, scopes)
    try:
        rehearse(library, names, witnesses)
    except ReachesTooFarError as reached:
        return _nothing_planted(str(reached))
    return _tested(Planting(library, names, hour.begin, witnesses.watching), scopes, hour, witnesses)


def _nothing_planted(problem: str) -> LeakReport:
    return LeakReport((), 0, 0, (), (problem,))


def _tested(planting: Planting, scopes: list[Scope], hour: Hour, witnesses: Witnesses) -> LeakReport:
    """Plant, look, remove and report; where a write reaches the library's own, nothing follows it."""
    try:
        planting.plant()
        audit = Audit(planting.library, planting.names, planting.canaries)
        callers = list(callers_of(planting.names, scopes))
        for caller in callers:
            if hour.is_on():
                audit.try_all(caller)
                if caller.is_of_library:
                    try_own(audit, caller)
        hour.is_on()
        found = (*planting.problems, *hour.problems(), *problems_of(audit.reports(), is_late=hour.is_late))
        problems = (*found, *clean_up(planting, witnesses))
    except ReachesTooFarError as reached:
        problems = (*planting.problems, str(reached), *left_over(planting))
        return LeakReport((), len(planting.canaries), 0, (), problems)
    except BaseException as error:
        for problem in clean_up(planting, witnesses):
            error.add_note(problem)
        raise
    return LeakReport(audit.reports(), len(audit.canaries), len(callers), tuple(audit.leaks), problems)
