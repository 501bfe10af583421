"""Reports: pure functions of records."""

from storage_conformance.report.records import Record
from storage_conformance.report.summary import Summary, summarize
from storage_conformance.report.terminal import Line, render

__all__ = ["Line", "Record", "Summary", "render", "summarize"]
