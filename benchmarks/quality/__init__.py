"""How good the intervals are and what they cost, against peers.

Two regimes, each with a store in ``benchmarks/results`` (one record for each data set, seed and
method); a run that was killed goes on where it stopped::

    LOCALCONFORMAL_DATA=<folder of the parquet files> python -m benchmarks.quality 5000
    LOCALCONFORMAL_DATA=<folder of the parquet files> python -m benchmarks.quality all

Both write ``quality.md`` and ``quality.png`` from all stores. Each method gets two threads and the
machine for itself: times are only worth reading where ``load_average`` stays near 2 or below. As a
control, BENCHMARK_THREADS=1 with other ``--results`` gives all of them one thread.
"""

import os

THREADS = int(os.environ.get("BENCHMARK_THREADS", "2"))
