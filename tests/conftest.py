"""Settings of all tests, and their tiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from onnx_systemds.engine import launcher, programs
from tests import quick_java
from tests.command_line import FEW_OPTIMISED
from tests.running_engine import lend_jvm
from tests.tiers import ADVICE, mark_engine_tests, without_java

settings.register_profile("any machine", deadline=None)  # how long an example takes depends on what else is running
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only tests that start no JVM and are not slow")


def pytest_configure(config: pytest.Config) -> None:
    """Sessions prepare a new script in nearly each test: what Java's second compiler does takes longer than it saves."""
    config.add_cleanup(quick_java.put_first())
    build = launcher.build_command

    def with_few_optimised(java: str, *others: Any) -> list[str]:
        return [java, *FEW_OPTIMISED, *build(java, *others)[1:]]

    launcher.build_command = with_few_optimised
    programs.start_jvm = lend_jvm


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_engine_tests(items)
    if config.getoption("--fast"):
        left_out = {item for item in items if item.get_closest_marker("engine") or item.get_closest_marker("slow")}
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def java_was_called(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], bool]:
    """In the fast tier there is no Java; tells whether somebody has asked for it since the last question."""
    if not request.config.getoption("--fast"):
        return lambda: False
    return without_java(tmp_path_factory.mktemp("no-java"))


@pytest.fixture
def registries_restored() -> Iterator[None]:
    """No other test sees what a plugin registers in this one."""
    from tests.registries import restored

    with restored():
        yield


@pytest.fixture(autouse=True)
def _engine_is_marked(java_was_called: Callable[[], bool]) -> Iterator[None]:
    """A test of the fast tier that starts a JVM, be it in a process of its own, fails."""
    yield
    if java_was_called():
        pytest.fail(ADVICE)
