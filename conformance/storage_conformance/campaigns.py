"""One campaign for each backend and session, started by the first item that asks."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from storage_conformance.backend import Backend
from storage_conformance.errors import ConfigurationError
from storage_conformance.finding import Finding
from storage_conformance.plan import Plan

if TYPE_CHECKING:
    from storage_conformance.campaign import Campaign

__all__ = ["Campaigns", "Unusable"]


class Unusable(Exception):
    """A backend that can be built, but not written and read once; the message says so."""


class Campaigns:
    """The campaigns of a session."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._selected: dict[str, frozenset[str]] = {}
        self._running: dict[str, Campaign] = {}
        self._stack = ExitStack()

    def smoke(self) -> None:
        """Builds, writes and reads each backend once.

        Raises:
            ConfigurationError: a backend cannot be set up or built.
            Unusable: one cannot be written or read.
        """
        from storage_conformance.campaign import SmokeError

        for backend in self._plan.backends:
            campaign = self._new(backend, frozenset())
            with _backend_warnings_aside(), ExitStack() as stack:
                stack.enter_context(campaign)
                try:
                    campaign.smoke()
                except SmokeError as error:
                    what = " ".join(str(error).split()).rstrip(".")
                    if error.built:
                        raise Unusable(
                            f"Backend {backend.name!r} cannot be written and read once: {what}. "
                            "The suite starts where the first row comes back: storage.set(0, row), then storage.get(0)."
                        ) from error
                    raise ConfigurationError(
                        f"Backend {backend.name!r} cannot be built: {what}. Its factory is called as "
                        "factory(max_size, device=..., ndim=...): mend it, or name another by package.module:attribute."
                    ) from error

    def select(self, selected: Collection[tuple[str, str]]) -> None:
        """Says which requirements the session runs, as pairs of backend and id; a campaign leaves out the rest."""
        for backend in self._plan.backends:
            self._selected[backend.name] = frozenset(i for name, i in selected if name == backend.name)

    def inapplicable(self, backend: Backend, requirement: str) -> str | None:
        """Why a requirement is not tested on a backend, None if it is."""
        return self._campaign(backend).applies(requirement)

    def finding(self, backend: Backend, requirement: str) -> Finding:
        """What the backend's campaign finds out about a requirement that applies."""
        with _backend_warnings_aside():
            return self._campaign(backend).finding(requirement)

    def close(self) -> None:
        """Leaves the contexts of all backends."""
        self._stack.close()

    def _campaign(self, backend: Backend) -> Campaign:
        if backend.name not in self._running:
            with _backend_warnings_aside():
                campaign = self._new(backend, self._selected[backend.name])
                self._running[backend.name] = self._stack.enter_context(campaign)
        return self._running[backend.name]

    def _new(self, backend: Backend, selected: frozenset[str]) -> Campaign:
        from storage_conformance.campaign import Campaign

        return Campaign(
            replace(backend, context=lambda: _entered(backend)),
            selected=selected,
            profile=self._plan.profile,
            seed=self._plan.seed,
            expected=frozenset(self._plan.deviations[backend.name]),
            device=self._plan.device,
        )


@contextmanager
def _entered(backend: Backend) -> Iterator[None]:
    """The context of a backend, whose failures are those of the backend and not of the suite."""
    with ExitStack() as stack:
        try:
            stack.enter_context(backend.context())
        except Exception as error:
            raise ConfigurationError(
                f"Backend {backend.name!r} cannot be set up: its context raised {type(error).__name__}: {error}."
            ) from error
        yield


@contextmanager
def _backend_warnings_aside() -> Iterator[None]:
    """A user's `filterwarnings = error` must not turn a warning of the backend into a refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
