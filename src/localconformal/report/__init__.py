"""An audit as a page to read: content -> one self-contained HTML file."""

from localconformal.report.report import render, report_content, write_report

__all__ = ["render", "report_content", "write_report"]
