"""A pytest plugin that checks whether a replay-buffer storage meets SPEC.md: `pytest --conformance=BACKEND`."""

from storage_conformance.backend import Backend
from storage_conformance.finding import Failure, Finding
from storage_conformance.requirements import Requirement, Specification, specification

__all__ = ["Backend", "Failure", "Finding", "Requirement", "Specification", "specification"]
