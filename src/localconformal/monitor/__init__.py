"""Deployed models: running coverage with a band, an alarm when rows change, and adaptation."""

from localconformal.monitor.adaptive import AdaptiveIntervals, LongRunGuarantee
from localconformal.monitor.monitor import Alarm, CoverageMonitor, RunningCoverage

__all__ = ["AdaptiveIntervals", "Alarm", "CoverageMonitor", "LongRunGuarantee", "RunningCoverage"]
