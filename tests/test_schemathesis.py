"""schemathesis generates good and bad requests from /openapi.json and finds no violation."""

import os
import subprocess
import sys

import pytest
from harness.dead_letters import add_letter
from harness.process import ROOT
from harness.service import start_with_tokens, token

DEADLINE_SECONDS = 1500
MIN_ORDERS = 30  # that must have been accepted: a run in which all were refused proves little


@pytest.mark.timeout(DEADLINE_SECONDS + 100)
def test_schemathesis_finds_nothing(programs, store, tmp_path):
    service = start_with_tokens(programs, tmp_path, store.url)
    for _ in range(20):
        add_letter(store)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", ROOT / "tests" / "schemathesis.toml", "run",
               service.base + "/openapi.json", "--header", f"Authorization: Bearer {token('otto')}", "--checks", "all",
               "--no-color"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests"), "COLUMNS": "160"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True,
                          timeout=DEADLINE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-3000:]
    assert service.process.alive()
    assert store.query("SELECT count(*) AS n FROM outbox_orders")[0]["n"] >= MIN_ORDERS
