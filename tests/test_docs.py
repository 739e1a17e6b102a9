"""The commands in README and docs work as written."""

import re

import pytest
from harness.documents import blocks, check, exchanges, text_of, type_in, with_hashes
from harness.ports import free_port
from harness.process import ROOT
from harness.receiver import Answer
from harness.waiting import wait_for
from harness.web import get

COMMANDS = [(), ("serve",), ("demo",), ("worker",), ("migrate",), ("lease",), ("config",), ("doctor",), ("bench",),
            ("orders",), *[("orders", name) for name in ("submit", "show", "list")],
            *[("lease", name) for name in ("enqueue", "claim", "ack", "fail", "dead", "renew", "dedup", "show")],
            ("config", "check"), ("config", "show"),
            ("dlq",), *[("dlq", name) for name in ("list", "show", "retry", "retry-all", "dead", "delete", "stats")],
            ("outbox",), *[("outbox", name) for name in ("add", "list", "show", "stats", "mark", "retry-count", "cleanup")],
            ("spool",), *[("spool", name) for name in ("add", "list", "show", "retry", "cleanup", "resolve", "import")]]


def test_the_readme_from_configuration_to_delivery(programs, empty_database, receiver, kafka, tmp_path):
    port = free_port()
    kafka.create_topic("order.shipped")
    (config,) = blocks("README.md", "yaml")
    assert "127.0.0.1:9092" in config
    config = config.replace("127.0.0.1:9092", kafka.brokers)
    config = re.sub(r"postgres://[^\"]+", empty_database.url, config)
    config, swapped = re.subn(r"http://[^\"]+(/\S+)\"", rf'http://127.0.0.1:{receiver.port}\1"', config)
    assert swapped == 2
    receiver.answer_with(lambda call: Answer(200, {"idempotency_key": call.key}) if call.path == "/orders" else Answer())
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
    wait_for(lambda: kafka.read_topic("order.shipped"), 20, lambda: f"the event to arrive: {serve.stderr}")
    (event,) = kafka.read_topic("order.shipped")
    assert (event.key(), event.value()) == (b"order-1", b'{"total": 42}')
    shown = call.raw_body.decode().replace(call.body["payload_sha"], "…")
    assert shown in text_of("README.md"), "the body as README shows it"

    for exchange in exchanges("README.md"):
        check(exchange, f"http://127.0.0.1:{port}", programs)
    wait_for(lambda: receiver.count() == 2, 20, lambda: f"the order to arrive: {serve.stderr}")
    order = receiver.calls[-1]
    assert (order.path, order.key, order.body["idempotency_key"]) == ("/orders", "order-2026-0001", "order-2026-0001")


def test_the_readme_posts_an_order_to_the_demo(programs):
    port = free_port()
    programs.start("demo", "--port", port, env={"TMPDIR": str(programs.folder)})  # killed: its folder stays
    base = f"http://127.0.0.1:{port}"
    wait_for(lambda: get(f"{base}/readyz").status == 200, 20, "the demo to be ready")
    (exchange,) = exchanges("README.md")
    check(exchange, base, programs)
    again = type_in(exchange.command, base, programs)
    assert again.startswith("HTTP/1.1 200"), again


@pytest.mark.parametrize("page", ["docs/operations.md", "docs/orders.md"])
def test_the_sql_for_operators_runs(postgres, page):
    for block in blocks(page, "sql"):
        for statement in filter(str.strip, block.split(";")):
            postgres.query(statement)


@pytest.mark.parametrize("page", ["README.md", "docs/api.md", "docs/configuration.md", "docs/orders.md",
                                  *[f"docs/sink-{sink}.md" for sink in ("console", "http", "kafka", "nats", "rabbitmq")]])
def test_every_configuration_shown_is_valid(programs, tmp_path, page):
    for config in blocks(page, "yaml"):
        for secret in re.findall(r"/run/secrets/([\w-]+)", config):
            (tmp_path / secret).write_text("secret")
        (tmp_path / "deliverd.yaml").write_text(with_hashes(config).replace("/run/secrets", str(tmp_path)))
        programs.run("config", "check").ok()


def anchors(text):
    """A heading's anchor: its letters, digits, dashes and underscores, with spaces as dashes."""
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
            for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def test_every_link_has_a_target():
    pages = [path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]]
    assert len(pages) > 5
    for page in pages:
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text_of(page)):
            path, _, anchor = target.partition("#")
            found = (page.parent / path) if path else page
            assert (ROOT / found).exists(), f"{page} links to {target}"
            assert not anchor or anchor in anchors(text_of(found)), f"{page} links to {target}"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_examples(programs, command):
    reported = programs.run(*command, "--help").ok().stdout
    assert "deliverd" in reported
    assert "Examples:" in reported or "Try it:" in reported
