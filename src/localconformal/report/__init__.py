"""A report that people want to look at: content -> page, one self-contained HTML file."""

from localconformal.report.report import render, report_content, write_report

__all__ = ["render", "report_content", "write_report"]
