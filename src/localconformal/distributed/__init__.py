"""Rows that no memory holds: fit, calibrate and predict on Dask arrays and frames.

`SLCPRegressor.fit(X, y)` with a Dask X comes here, and what comes out is an ordinary fitted
estimator. Every choice of rows (calibration, folds, samples) is a function of a row's position in
the table, never of its partitions or of who computes them. `estimator` has the order of all this.
"""
