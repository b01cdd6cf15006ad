"""Rows whose coverage is known at every x."""

import numpy as np
import pandas as pd
from scipy.stats import norm

LEVEL = 0.9


def table(n, seed):
    """Eight features: numbers, one with missing values, counts, and labels."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    X.loc[rng.uniform(size=n) < 0.1, "e"] = np.nan
    X["hour"] = rng.integers(0, 24, n)
    X["weather"] = pd.Categorical(rng.choice(["clear", "rain", "snow"], n, p=[0.45, 0.2, 0.35]))
    X["holiday"] = rng.uniform(size=n) < 0.1
    return X


def respond(n, seed, coverage):
    """y and symmetric intervals of many lengths that cover with this probability, row by row."""
    rng = np.random.default_rng([seed, 1])
    half = rng.uniform(0.5, 2.0, n) * norm.ppf(0.95)
    y = half / norm.ppf((1 + coverage) / 2) * rng.normal(size=n)
    return y, np.stack([-half, half], axis=1)


def oracle(n, seed):
    """X, y and intervals that cover with probability 0.9 at every x."""
    return table(n, seed), *respond(n, seed, LEVEL)


def planted(n, seed):
    """The same, but for a tenth of the rows, which are covered with probability 0.7."""
    X = table(n, seed)
    where = ((X["weather"] == "snow") & (X["hour"] < 7)).to_numpy()
    return X, *respond(n, seed, np.where(where, 0.7, LEVEL)), where


def both_sides(n, seed):
    """One feature that covers everything below 0.3, and 65 % of the rows from 0.7 to 0.8."""
    X = pd.DataFrame(np.random.default_rng(seed).uniform(size=(n, 5)), columns=list("abcde"))
    where = X["a"].between(0.7, 0.8).to_numpy()
    y, intervals = respond(n, seed, np.where(where, 0.65, LEVEL))
    return X, np.where(X["a"] < 0.3, 0.0, y), intervals, where


def shifted(n, seed, worst=0.8):
    """Coverage of 0.8 at every x, but for ``worst`` in a seventh of the rows."""
    X = table(n, seed)
    where = X["a"].to_numpy() > 1.07
    return X, *respond(n, seed, np.where(where, worst, 0.8)), where
