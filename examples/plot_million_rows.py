"""
A million rows
==============

Fit a million rows and predict a million intervals, on two cores. Nothing of that size runs on
this page: it draws figures that ``python -m benchmarks.speed`` measured earlier and that are kept
with the code.
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
# Compared with others
# --------------------
# All methods wrap the same boosted model, fitted beforehand (CQR: quantile models of that kind).
# They are calibrated on n rows and predict n more, with n reference rows if a method has any. A
# line ends where the next size was expected to take more than a minute, or at a million.

_, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
for name, peer in measured["peers"].items():
    sizes = pd.DataFrame(peer["sizes"])
    ax.loglog(sizes["n"], sizes["predict_seconds"], marker="o", markersize=4, label=name)
ax.set(xlabel="rows n", ylabel="seconds of predict_interval")
ax.grid(alpha=0.3)
_ = ax.legend(fontsize="small")

# %%
# Why it is fast
# --------------
# From 10,000 reference rows on, a sketch replaces them: the cost of a query does not grow with the
# number of references.

flat = measured["flatness"]["microseconds_per_query"]
pd.Series({int(n): cost for n, cost in flat.items()}, name="microseconds per query").round(
    2
).rename_axis("reference rows").to_frame()

# %%
# A sketch is used only if its error, measured on reference rows set aside, is small enough.
# :doc:`/engine` explains how it works.
