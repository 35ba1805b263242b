"""What all tests share: the device, a code cache of the session's own, Hypothesis profiles, and a count of cases."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from device_arrays import Arrays, arrays_on
from hypothesis import HealthCheck, Phase, settings

from launch import Cache
from launch.environment import CACHE_DIR

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci", max_examples=100, deadline=None, derandomize=True, print_blob=True, suppress_health_check=SLOW
)
settings.register_profile("hunt", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=SLOW)
settings.register_profile("first", parent=settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "ci")

CASES: pytest.StashKey[Counter[str]] = pytest.StashKey()
OWN_CACHE: pytest.StashKey[str] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", choices=("cpu", "cuda"), default="cpu", help="where kernels run (default: cpu)")


def pytest_configure(config: pytest.Config) -> None:
    """Give the session a code cache that all its workers share, which inherit the variable."""
    config.stash[CASES] = Counter()
    if not hasattr(config, "workerinput"):
        os.environ[CACHE_DIR] = config.stash[OWN_CACHE] = tempfile.mkdtemp(prefix="kernelpress-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(OWN_CACHE, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its counts to the process that started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["kernelpress_cases"] = dict(session.config.stash[CASES])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """xdist: add up what the workers counted."""
    node.config.stash[CASES].update(getattr(node, "workeroutput", {}).get("kernelpress_cases", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    cases = config.stash[CASES]
    if cases:
        terminalreporter.section("property cases")
        for what, count in sorted(cases.items()):
            terminalreporter.write_line(f"{count:7d}  {what}")


@pytest.fixture(scope="session")
def count(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Counts one property case under a title such as "cuda run on cpu"; the session prints the totals."""
    cases = request.config.stash[CASES]

    def one_more(title: str) -> None:
        cases[title] += 1

    return one_more


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """Where kernels run: "cpu" or "cuda"."""
    return str(request.config.getoption("--device"))


@pytest.fixture(scope="session")
def arrays(device: str) -> Arrays:
    """Puts NumPy arrays on that device."""
    return arrays_on(device)


@pytest.fixture(scope="session")
def cache() -> Iterator[Cache]:
    """The session's code cache."""
    yield Cache.default()
