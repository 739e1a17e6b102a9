"""What README and docs tell people to type works as it is written there."""

import re

import pytest

from harness.postgres import free_port
from harness.process import ROOT
from harness.waiting import wait_for
from harness.web import get

COMMANDS = [(), ("serve",), ("demo",), ("worker",), ("migrate",), ("lease",), ("config",), ("doctor",), ("bench",),
            *[("lease", name) for name in ("enqueue", "claim", "ack", "fail", "dead", "renew", "dedup", "show")],
            ("config", "check"), ("config", "show")]


def blocks(path, language):
    """The fenced blocks of this language ("": of none)."""
    text = (ROOT / path).read_text(encoding="utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    found = [body for name, body in fenced if name == language]
    assert found, f"{path} has no {language or 'plain'} block"
    return found


def test_the_readme_from_configuration_to_delivery(programs, empty_database, receiver, tmp_path):
    port = free_port()
    (config,) = blocks("README.md", "yaml")
    config = re.sub(r"postgres://[^\"]+", empty_database.url, config)
    config, swapped = re.subn(r"http://[^\"]+(/\S+)\"", rf'http://127.0.0.1:{receiver.port}\1"', config)
    assert swapped == 1
    (tmp_path / "deliverd.yaml").write_text(config + f"server: {{ port: {port} }}\n")

    (commands,) = [block for block in blocks("README.md", "") if "build/deliverd migrate" in block]
    typed = [line.partition("#")[0].split()[1:] for line in commands.splitlines() if line.startswith("build/deliverd")]
    for words in typed[:-1]:
        programs.run(*words).ok()
    assert typed[-1] == ["serve"]
    serve = programs.start(*typed[-1])
    wait_for(lambda: get(f"http://127.0.0.1:{port}/readyz").status == 200, 20, lambda: serve.stderr)

    (sql,) = blocks("README.md", "sql")
    empty_database.query(sql)
    wait_for(lambda: receiver.count() == 1, 20, lambda: f"the message to arrive: {serve.stderr}")
    (call,) = receiver.calls
    assert (call.path, call.key) == ("/memories", "memory-1")
    assert call.body["payload_md"] == "# Remember the milk"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert call.raw_body.decode().replace(call.body["payload_sha"], "…") in readme, "the body as README shows it"


def test_the_sql_of_the_operations_guide_runs(postgres):
    for block in blocks("docs/operations.md", "sql"):
        for statement in filter(str.strip, block.split(";")):
            postgres.query(statement)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_teaches_itself(programs, command):
    told = programs.run(*command, "--help").ok().stdout
    assert "deliverd" in told
    assert "Examples:" in told or "Try it:" in told
