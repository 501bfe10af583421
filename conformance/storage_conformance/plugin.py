"""`pytest --conformance=BACKEND`: the entry point that pytest loads in every run of everybody who has us installed.

So this module imports nothing but pytest. All else, torch and Hypothesis above all, waits until `--conformance` is
given (`storage_conformance.session` takes over from there).
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup(
        "conformance", "conformance of replay-buffer tensor storages (storage-conformance)"
    )
    option = group.addoption
    option(
        "--conformance",
        action="append",
        default=[],
        metavar="BACKEND",
        help="check that a storage meets SPEC.md: a registered name or package.module:attribute (a class, a factory "
        "or a Backend); several with commas or by repetition. Without paths only this suite is collected.",
    )
    option("--conformance-list", action="store_true", help="print the registered backends and exit.")
    option(
        "--conformance-profile",
        choices=("quick", "default", "thorough"),
        help="how long to hunt (ini: conformance_profile; default: default).",
    )
    option(
        "--conformance-only",
        action="append",
        default=[],
        metavar="IDS",
        help="check these requirements only, e.g. CAP-3,LEN-*.",
    )
    option(
        "--conformance-features",
        metavar="NAMES",
        help="optional features of SPEC.md that a bare class claims, e.g. pytree,clear.",
    )
    option(
        "--conformance-device",
        metavar="DEVICE",
        help="device to store on, e.g. cuda; fake makes an accelerator without hardware (ini: conformance_device; "
        "default: cpu).",
    )
    option(
        "--conformance-deviations",
        metavar="LIST",
        help="known deviations to allow instead of the backends' own: the path of a TOML file, or the name of a "
        "shipped list, which then means 'no worse than' (ini: conformance_deviations).",
    )
    option(
        "--conformance-no-deviations",
        action="store_true",
        help="allow no known deviation: show all as failures.",
    )
    option("--conformance-strict", action="store_true", help="let an unmet SHOULD fail the run too.")
    option(
        "--conformance-report",
        action="append",
        default=[],
        metavar="PATH",
        help="write a report, also where the run fails: FILE.json, .md (for a pull request), .html or .svg (a badge), "
        "by suffix; repeatable.",
    )
    parser.addini("conformance_profile", "quick, default or thorough", default="")
    parser.addini("conformance_device", "device to store on", default="")
    parser.addini("conformance_deviations", "path or shipped name of a list of known deviations", default="")


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from storage_conformance import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "requirement(id, level): the requirement of SPEC.md that an item of the conformance suite checks",
    )


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if not config.getoption("conformance_list"):
        return None
    from storage_conformance.listing import print_backends

    print_backends(config)
    return int(pytest.ExitCode.OK)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if not session.config.getoption("conformance"):
        if session.config.getoption("conformance_report"):
            raise pytest.UsageError(
                "--conformance-report needs --conformance=BACKEND: there is nothing to report on."
            )
        return
    from storage_conformance.session import start

    start(session)
