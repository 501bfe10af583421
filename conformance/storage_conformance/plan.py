"""What a run checks, on what and how, decided from the command line before anything is run."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from storage_conformance.accelerator import prepare
from storage_conformance.backend import Backend
from storage_conformance.deviations import Deviation, load, shipped
from storage_conformance.errors import ConfigurationError
from storage_conformance.profile import PROFILES, Profile
from storage_conformance.registry import resolve
from storage_conformance.requirements import Specification, specification
from storage_conformance.selection import Targets, matching, split_targets
from storage_conformance.verdict import Policy

__all__ = ["SEED_KEY", "Plan", "hooked_backends", "plan"]

SEED_KEY = "conformance_seed"


@dataclass(frozen=True)
class Plan:
    """A run, as it was asked for.

    Attributes:
        specification: what is checked.
        backends: on what, in the order of the command line.
        deviations: for each backend, by name, the known deviations by requirement id.
        policies: for each backend, by name, how strictly it is judged.
        profile: how long to hunt.
        seed: of everything drawn.
        device: passed to the factories.
        only: the ids that `--conformance-only` names; None for all.
        targets: the items asked for by node id, and the other tests.
    """

    specification: Specification
    backends: tuple[Backend, ...]
    deviations: Mapping[str, Mapping[str, Deviation]]
    policies: Mapping[str, Policy]
    profile: Profile
    seed: int
    device: str
    only: frozenset[str] | None
    targets: Targets


def plan(config: pytest.Config) -> Plan:
    """Reads the options of a run.

    Raises:
        ConfigurationError: they cannot be followed.
    """
    spec = specification()
    backends = resolve(
        [name.strip() for argument in config.getoption("conformance") or () for name in argument.split(",")],
        hooked_backends(config),
        features=_features(config, spec),
        folder=config.invocation_params.dir,
    )
    lists = {backend.name: _list(config, backend) for backend in backends}
    deviations = {
        name: {} if source is None else load(source, spec, folder=folder, today=date.today())
        for name, (source, folder) in lists.items()
    }
    policies = {
        # A shipped list that is not the backend's own means "no worse than": what the backend does better is fine.
        backend.name: Policy(
            exact_list=str(lists[backend.name][0]) not in shipped()
            or lists[backend.name][0] == backend.deviations,
            should_fails=bool(config.getoption("conformance_strict")),
        )
        for backend in backends
    }
    profile = _option(config, "conformance_profile") or "default"
    if profile not in PROFILES:
        raise ConfigurationError(f"There is no profile {profile!r}; there are {', '.join(PROFILES)}.")
    explicit = config.args_source is pytest.Config.ArgsSource.ARGS
    return Plan(
        specification=spec,
        backends=backends,
        deviations=deviations,
        policies=policies,
        profile=PROFILES[profile],
        seed=_seed(config),
        device=prepare(_option(config, "conformance_device") or "cpu"),
        only=matching(config.getoption("conformance_only") or (), spec),
        targets=split_targets(config.args if explicit else []),
    )


def hooked_backends(config: pytest.Config) -> list[Backend]:
    """The backends that conftest files and plugins register.

    Raises:
        ConfigurationError: a hook raises, or gives something else.
    """
    try:
        results = [list(result) for result in config.hook.pytest_conformance_backends(config=config)]
    except Exception as error:
        raise ConfigurationError(
            f"A pytest_conformance_backends hook failed with {type(error).__name__}: {error}. "
            "It has to return an iterable of storage_conformance.Backend."
        ) from error
    found = [backend for result in results for backend in result]
    for backend in found:
        if not isinstance(backend, Backend):
            raise ConfigurationError(
                f"A pytest_conformance_backends hook gave {backend!r}, which is no storage_conformance.Backend."
            )
    return found


def _option(config: pytest.Config, name: str) -> str:
    """The value of an option, or of the ini key of the same name."""
    return config.getoption(name) or str(config.getini(name)).strip()


def _list(config: pytest.Config, backend: Backend) -> tuple[str | Path | None, Path]:
    """The list of deviations to use for a backend, and the folder that its path starts from."""
    given = config.getoption("conformance_deviations")
    if config.getoption("conformance_no_deviations"):
        if given:
            raise ConfigurationError(
                "--conformance-deviations and --conformance-no-deviations contradict each other."
            )
        return None, config.rootpath
    if given:
        return given, config.invocation_params.dir
    return str(config.getini("conformance_deviations")).strip() or backend.deviations, config.rootpath


def _features(config: pytest.Config, spec: Specification) -> frozenset[str]:
    text = config.getoption("conformance_features")
    features = frozenset(name.strip() for name in (text or "").split(",") if name.strip())
    if unknown := sorted(features - set(spec.features)):
        raise ConfigurationError(
            f"--conformance-features: unknown {', '.join(unknown)}; SPEC.md has {', '.join(spec.features)}."
        )
    return features


def _seed(config: pytest.Config) -> int:
    drawn: int | None = getattr(config, "workerinput", {}).get(SEED_KEY)
    if drawn is not None:
        return drawn
    given = config.getoption("hypothesis_seed", None)
    if given is None:
        return 0
    if given == "random":
        return random.SystemRandom().randrange(2**32)
    try:
        return int(given)
    except ValueError:
        raise ConfigurationError(
            f"--hypothesis-seed must be an integer or 'random', not {given!r}."
        ) from None
