"""How good a library's answers are: measures of its modes on judged queries, and the fusion that serves them best.

Needs the extra `eval` (ir-measures). Files are those of BEIR: queries as JSON Lines of `_id` and `text`, judgements as
tab-separated query, document and grade; either may be gzipped. A document is a source, found by its best passage.
"""

from stackroom._evaluation import Measured, Tuned, evaluate, read_qrels, read_queries, tune

__all__ = ["Measured", "Tuned", "evaluate", "read_qrels", "read_queries", "tune"]
