"""A report that people want to look at: summarise -> render, one self-contained HTML page."""

from localconformal.report.report import render, summarise, write_report

__all__ = ["render", "summarise", "write_report"]
