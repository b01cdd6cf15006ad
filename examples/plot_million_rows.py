"""
A million rows
==============

Fit a million rows and ask for a million intervals, on two cores. This page draws figures that
``python -m benchmarks.speed`` measured and that are kept with the code, with the machine they come
from: nothing of that size runs here.
"""

# %%
# What was run
# ------------
# .. code-block:: python
#
#    model = SLCPRegressor(
#        HistGradientBoostingRegressor(), law=KernelLaw(bandwidth="median"), random_state=0
#    )
#    model.fit(X, y)  # 10^6 rows, a quarter of them to calibrate
#    model.predict_interval(X_new)  # 10^6 rows

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

here = Path.cwd()
repository = next(folder for folder in (here, *here.parents) if (folder / "benchmarks").is_dir())
measured = json.loads((repository / "benchmarks/results/speed.json").read_text())
machine = measured["machine"]["whole"]
print(machine["cpu"], f"{machine['cores']} cores,", "measured on", machine["date"])
print({name: machine["packages"][name] for name in ("localconformal", "mapie", "crepes")})

# %%
# Most of the time goes into the base model and its five cross-fits.

whole = measured["whole"]
pd.Series(
    {
        "train the model, with its cross-fits": whole["fit_stages"]["train"],
        "fit the law": whole["fit_stages"]["law"],
        "calibrate": whole["fit_stages"]["calibrate"],
        "predict_interval": whole["predict_interval_seconds"],
    },
    name="seconds",
).round(1).to_frame()

# %%
# Beside others
# -------------
# One boosted model, fitted beforehand, under all of them (quantile models of the same kind under
# CQR): calibrated on n rows and asked for n more, with n reference rows where a method has such. A
# line ends where the next size was expected to take more than a minute, or at a million.

_, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
for name, peer in measured["peers"].items():
    sizes = pd.DataFrame(peer["sizes"])
    ax.loglog(sizes["n"], sizes["predict_seconds"], marker="o", markersize=4, label=name)
ax.set(xlabel="rows n", ylabel="seconds of predict_interval")
ax.grid(alpha=0.3)
_ = ax.legend(fontsize="small")

# %%
# Why it is quick
# ---------------
# From 10,000 reference rows on, a sketch answers: the cost of a query does not grow with the number
# of references.

flat = measured["flatness"]["microseconds_per_query"]
pd.Series({int(n): cost for n, cost in flat.items()}, name="microseconds a query").round(
    2
).rename_axis("reference rows").to_frame()

# %%
# The sketch is taken where a certificate, measured on reference rows held aside, allows it. How it
# works is told in :doc:`/engine`.
