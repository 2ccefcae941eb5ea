"""What is said of pages that were looked at; the looking itself takes a browser, and checks itself on planted pages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.docs import views

WELL = {"wide": 365, "window": 365, "parts": [], "text": False, "back": True}
LOGGED = {"type": "error", "args": [{"type": "string", "value": "it"}, {"type": "object", "description": "Error: broke"}]}
NO_NAME = "ReferenceError: planted is not defined"
THROWN = {"text": "Uncaught", "exception": {"description": NO_NAME}}
MISSING = {"source": "network", "level": "error", "text": "Failed to load", "url": "http://here/planted.png"}


def event(method: str, **given: Any) -> dict[str, Any]:
    return {"method": method, "params": given}


@pytest.mark.parametrize("scheme, measured, events, said", [
    ("light", {}, [], []),
    ("light", {"back": None}, [], []),
    ("dark", {"text": True, "back": False}, [], []),
    ("light", {"wide": 400, "parts": ["<p>", "<b>"]}, [], ["sticks out of 365 px by 35: <p>; <b>"]),
    ("dark", {}, [], ["colours are not dark"]),
    ("dark", {"text": True}, [], ["colours are not dark"]),
    ("light", {"back": False}, [], ["colours are not light"]),
    ("light", {}, [event("Runtime.consoleAPICalled", **LOGGED)], ["it Error: broke"]),
    ("light", {}, [event("Runtime.consoleAPICalled", type="log", args=[])], []),
    ("light", {}, [event("Runtime.exceptionThrown", exceptionDetails=THROWN)], [NO_NAME]),
    ("light", {}, [event("Log.entryAdded", entry=MISSING)], ["Failed to load http://here/planted.png"]),
    ("light", {}, [event("Log.entryAdded", entry={**MISSING, "level": "warning"})], []),
])
def test_faults(scheme: str, measured: dict[str, Any], events: list[dict[str, Any]], said: list[str]) -> None:
    assert [*views.faults(scheme, {**WELL, **measured}, events)] == said


def test_a_picture_has_its_own_size() -> None:
    measured = {**WELL, "wide": 9000, "text": None, "back": None}
    assert [*views.faults("dark", measured, [event("Log.entryAdded", entry=MISSING)], picture=True)] == [
        "Failed to load http://here/planted.png"]


def test_each_planted_page_is_judged() -> None:
    assert views.PLANTED.keys() == views.FOUND.keys()


def test_the_model_has_its_nodes() -> None:
    assert len(views.large_model().graph.node) == views.NODES


def test_without_a_browser(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(views, "PROGRAMS", ("no-such-browser",))
    assert views.main([]) == 1
    assert "no Chromium here" in capsys.readouterr().err
