"""Tells `cargo xtask test` what passed, failed and was skipped, in the words of cargo's test binaries."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_places(tmp_path_factory, monkeypatch):
    """Tests leave the user's own memory and cache alone."""
    folder = tmp_path_factory.mktemp("own")
    monkeypatch.setenv("ONEFOLD_STATE_DIR", str(folder / "state"))
    monkeypatch.setenv("ONEFOLD_CACHE_DIR", str(folder / "cache"))


def pytest_terminal_summary(terminalreporter, exitstatus):
    stats = terminalreporter.stats
    failed = stats.get("failed", []) + stats.get("error", [])
    for report in failed:
        print(f"test {report.nodeid} ... FAILED")
    log = os.environ.get("ONEFOLD_SKIP_LOG")
    if log:
        with open(log, "a") as file:
            for report in stats.get("skipped", []):
                reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "skipped"
                file.write(f"SKIP: {report.nodeid}: {reason.removeprefix('Skipped: ')}\n")
    passed = len(stats.get("passed", []))
    verdict = "FAILED" if failed else "ok"
    print(f"\ntest result: {verdict}. {passed} passed; {len(failed)} failed; 0 ignored")
