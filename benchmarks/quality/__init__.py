"""How good the intervals are, against peers: an objective, data sets and methods, a file each.

One command runs everything; a run that was killed goes on where it stopped::

    LOCALCONFORMAL_DATA=<folder of the parquet files> python -m benchmarks.quality

It writes to ``benchmarks/results``: ``quality.jsonl`` (one record for each data set, seed and
method), ``quality_selection.jsonl`` (what ``law="auto"`` compared), ``quality_machine.json``,
and from these ``quality.md`` and ``quality.png``.
"""
