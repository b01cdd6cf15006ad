"""Rows that no memory holds: fit, calibrate and predict on Dask arrays and frames.

The estimators take Dask collections themselves: `SLCPRegressor.fit(X, y)` with a Dask X comes
here. What comes out is an ordinary fitted estimator, a few megabytes, which also answers arrays
and frames in memory. Nothing here is imported before a Dask collection is met.

Every choice of rows (calibration, folds, samples) is a function of a row's position in the table,
and never of how the table is cut into partitions or of who computes them.

::

    graph.py      steps that Dask runs, (X, y) as blocks, roles of rows by position
    ranks.py      exact order statistics in one pass
    models.py     point models: fitted ones, ones that train on Dask, ones that train on a sample
    laws.py       the law: chosen on a sample, summed over all rows
    estimator.py  the order of all this; theta*; lazy predictions
"""
