"""How far the draw of the calibration rows alone moves the coverage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from localconformal.audit import Audit, Summary
from localconformal.metrics import coverage_band
from localconformal.text import say_rows


def with_expected_band(audit: Audit, model: Any) -> Audit:
    """The audit with the Beta-binomial band of its coverage, where only the model knows it."""
    summary, n_calibration = audit.summary, calibration_rows(model)
    if summary.n_calibration or n_calibration == 0:
        return audit
    lower, upper = coverage_band(n_calibration, summary.n, summary.confidence_level)
    known = replace(
        summary, n_calibration=n_calibration, expected_lower=lower, expected_upper=upper
    )
    return replace(audit, summary=known)


def calibration_rows(model: Any) -> int:
    """How many rows calibrated the model as a whole; 0 where it does not say, or by cells."""
    guarantee: Any = getattr(model, "guarantee_", None)
    if guarantee is None or not (guarantee.marginal and guarantee.finite_sample):
        return 0
    report = getattr(model, "fit_report_", {})
    if guarantee.conditional_on is not None or not isinstance(report, Mapping):
        return 0
    return int(report.get("rows", {}).get("calibration", 0))


def say_calibration(summary: Summary) -> str:
    """The calibration set, by its size."""
    return f"a calibration set of {say_rows(summary.n_calibration)}"


def say_expected(summary: Summary) -> str:
    """The band in per cent."""
    return f"{100 * summary.expected_lower:.1f} to {100 * summary.expected_upper:.1f}"
