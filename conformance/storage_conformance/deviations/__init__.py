"""Known deviations: requirements that a backend is known, and allowed, not to meet."""

from storage_conformance.deviations.loading import Deviation, load, shipped

__all__ = ["Deviation", "load", "shipped"]
