"""How good the intervals are, against peers: an objective, data sets and methods.

One command runs everything; a run that was killed goes on where it stopped::

    LOCALCONFORMAL_DATA=<folder of the parquet files> python -m benchmarks.quality

It writes to ``benchmarks/results``: a store for each base model and cap of rows, such as
``quality_boosting_8000.jsonl`` (one record for each data set, seed and method), and from all
stores ``quality.md`` and ``quality.png``.
"""
