"""A report that people want to look at: summarise -> render, one self-contained HTML page."""

from localconformal.report.render import render
from localconformal.report.summarise import summarise
from localconformal.report.write import write_report

__all__ = ["render", "summarise", "write_report"]
