"""Coverage of deployed models: running coverage with a band, and an alarm when rows change."""

from localconformal.monitor.monitor import Alarm, CoverageMonitor, RunningCoverage

__all__ = ["Alarm", "CoverageMonitor", "RunningCoverage"]
