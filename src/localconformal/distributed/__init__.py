"""Tables larger than memory: fit, calibrate and predict on Dask arrays and frames.

`SLCPRegressor.fit(X, y)` with a Dask X is done here, and the result is an ordinary fitted
estimator. Every choice of rows (calibration, folds, samples) is a function of a row's position in
the table, never of its partitions or of the worker. `estimator` describes the sequence of steps.
"""
