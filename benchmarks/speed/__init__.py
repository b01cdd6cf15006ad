"""How fast the local law is, against the naive way, bare exp, the point model and peers.

One command runs everything and writes ``benchmarks/results/speed.json`` and ``speed.png``::

    python -m benchmarks.speed

Every figure is the least of a few repeats, and figures that are compared come from one run.
"""
