"""docs/dead-letters.md: its commands work and print what it shows."""

import json
import re

import pytest
from harness.dead_letters import PAGE, add_letter, table, told_headers
from harness.documents import blocks, check, exchanges, text_of
from harness.ports import free_port
from harness.process import ROOT, build_dir
from harness.service import Service, start_with_tokens, token
from harness.web import get

ALONE, WITH_KAFKA = 0, 1  # the page's configurations
BROKER = "127.0.0.1:9092"
FORMS = {"text": "", "int32_be": " (4 bytes, big endian)", "int64_be": " (8 bytes, big endian)",
         "exception": " (`class: message`)", "bytes": " (bytes)"}


def shown_exchanges():
    """Examples without Kafka, and examples that begin with a record in a dead-letter topic."""
    shown = exchanges(PAGE)
    (first,) = [number for number, exchange in enumerate(shown) if "kcat" in exchange.command and " -P " in exchange.command]
    return shown[:first], shown[first:]


def serve(programs, folder, config):
    port = free_port()
    path = folder / "deliverd.yaml"
    path.write_text(config + f"server: {{ port: {port} }}\n")
    (folder / "build").symlink_to(build_dir())
    return Service(programs, path, port)


def test_every_example_without_kafka(programs, sqlite, tmp_path):
    config = blocks(PAGE, "yaml")[ALONE]
    assert "sqlite:deliverd.db" in config
    service = serve(programs, tmp_path, config.replace("sqlite:deliverd.db", sqlite.url))
    (insert,) = blocks(PAGE, "sql")
    sqlite.query(insert.replace("dlq_messages", table(sqlite)))
    for exchange in shown_exchanges()[0]:
        check(exchange, service.base, programs)


def test_there_and_back_through_kafka(programs, empty_database, kafka, tmp_path):
    config, swapped = re.subn(r"postgres://[^\"]+", empty_database.url, blocks(PAGE, "yaml")[WITH_KAFKA])
    assert swapped == 1 and BROKER in config
    for topic in ("orders", "orders.dlq.v1"):
        kafka.create_topic(topic)
    programs.run("migrate", "--database", empty_database.url).ok()
    service = serve(programs, tmp_path, config.replace(BROKER, kafka.brokers))
    for exchange in shown_exchanges()[1]:
        exchange.command = exchange.command.replace(BROKER, kafka.brokers)
        check(exchange, service.base, programs)


@pytest.mark.parametrize("number", [ALONE, WITH_KAFKA])
def test_its_configurations_are_valid(programs, tmp_path, number):
    (tmp_path / "deliverd.yaml").write_text(blocks(PAGE, "yaml")[number])
    programs.run("config", "check").ok()


def headers_of_the_program():
    """(family, meaning) → the header names with their forms, in the program's order."""
    source = "".join((ROOT / "src/deadletter" / name).read_text() for name in ("failure_headers.h", "failure_headers.cc"))
    constants = dict(re.findall(r'string_view (k\w+)\s*=\s*"([^"]*)"', source))
    entries = re.findall(r'^    \{(k\w+), ("[^"]+"|k\w+), Meaning::(\w+)(?:, Form::(\w+))?\},$', source, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^    \{k", source, re.MULTILINE)) > 50
    found = {}
    for family, name, meaning, form in entries:
        name = name.strip('"') if name.startswith('"') else constants[name]
        found.setdefault((constants[family], meaning.replace("_", " ")), []).append(f"`{name}`{FORMS[form or 'text']}")
    return found


def test_the_header_table_matches_the_program():
    reported, real = told_headers(), headers_of_the_program()
    assert reported == real
    assert list(dict.fromkeys(family for family, _ in reported)) == list(dict.fromkeys(family for family, _ in real))


def told_transitions():
    rows = re.findall(r"^\| (\S+) \| `([A-Z]+)` \|[^|]+\| `?(\w+)`? \|$", text_of(PAGE), re.MULTILINE)
    return {(None if source == "–" else source.strip("`"), to, action) for source, to, action in rows}


def test_the_state_diagram_matches_the_text():
    (diagram,) = blocks(PAGE, "mermaid")
    drawn = {(None if source == "[*]" else source, to, action)
             for source, to, actions in re.findall(r"(\S+) --> (\w+): (.+)", diagram) for action in actions.split(", ")}
    assert drawn == told_transitions()
    assert len(drawn) == 13


def test_the_api_lists_the_documented_actions():
    document = json.loads((ROOT / "src/api/openapi.json").read_text())
    lines = document["components"]["schemas"]["LetterAudit"]["properties"]["audit"]["items"]
    reported = {action for _, _, action in told_transitions()} - {"stored"}
    assert set(lines["properties"]["action"]["enum"]) == reported | {"deleted", "purged", "row_reused"}


def test_letters_change_state_as_documented(programs, store, tmp_path):
    """With an unreachable broker, by hand, and without Kafka. The other transitions need a broker."""
    away = f"127.0.0.1:{free_port()}"
    base = start_with_tokens(programs, tmp_path, store.url, kafka={"brokers": [away]},
                             dead_letters={"replay_timeout_seconds": 1}).base
    ids = [add_letter(store) for _ in range(2)] + [add_letter(store, status="RETRYING", retry_count=2)]

    def ask(method, path):
        return get(f"{base}/api/v1/dlq/messages/{path}", method=method,
                   headers={"Authorization": f"Bearer {token('otto')}"})

    assert ask("POST", f"{ids[0]}/retry").status == 500
    assert ask("POST", f"{ids[2]}/retry").status == 500
    for letter in ids[1:]:
        assert ask("POST", f"{letter}/dead").status == 200
    assert ask("POST", f"{ids[1]}/revive").status == 200
    lines = [line for letter in ids for line in ask("GET", f"{letter}/audit").json()["audit"]]
    gone = {(line["status_from"], line["status_to"], line["action"]) for line in lines}
    assert gone <= told_transitions()
    assert gone >= {("PENDING", "RETRYING", "retry_begun"), ("RETRYING", "RETRYING", "retry_begun"),
                    ("PENDING", "DEAD", "dead"), ("RETRYING", "DEAD", "dead"), ("DEAD", "PENDING", "revived")}, gone


def test_refusals_match_the_table(programs, store, tmp_path):
    text = text_of(PAGE)
    service = start_with_tokens(programs, tmp_path, store.url, kafka={"brokers": ["127.0.0.1:9"]})
    reporter = '[{"name": "input_record_topic", "value_base64": "b3JkZXJz"}]'
    share = '[{"name": "__dlq.errors.topic", "value_base64": "b3JkZXJz"}]'
    refused = {"is itself for dead letters": add_letter(store, "orders.dlq.v1"),
               "bytes of its value were stored": add_letter(store, truncated=True),
               "a dead order is not sent again": add_letter(store, lane="orders", outbox="orders", outbox_row_id="1",
                                                            source="lane:orders", status="DEAD"),
               "a connector's report about the failure": add_letter(store, record_headers=reporter),
               "the broker put no copy of the message": add_letter(store, payload=None, record_headers=share),
               "is not a name that Kafka allows": add_letter(store, "what is this?"),
               "status=DEAD": add_letter(store, status="DEAD"),
               "retry_count=3/3": add_letter(store, status="RETRYING", retry_count=3),
               "its last retry may have been published": add_letter(store, status="RETRYING", retry_count=3, in_doubt=True)}
    for words, letter in refused.items():
        assert f"`{words}" in text, words
        answer = get(f"{service.base}/api/v1/dlq/messages/{letter}/retry", method="POST",
                     headers={"Authorization": f"Bearer {token('otto')}"})
        assert (answer.status, words in answer.json()["error"]["message"]) == (409, True), answer.text


def test_the_documented_defaults_are_in_force(programs, tmp_path):
    (tmp_path / "deliverd.yaml").write_text(blocks(PAGE, "yaml")[WITH_KAFKA])
    shown = programs.run("config", "show").ok().stdout
    values = {words[0]: words[1] for words in map(str.split, shown.splitlines()) if len(words) > 2}
    text = " ".join(text_of(PAGE).split())
    for setting, sentence in [("dead_letters.replay_timeout_seconds", r"`dead_letters.replay_timeout_seconds` \((\d+) s\)"),
                              ("dead_letters.retry_lease_seconds", r"`dead_letters.retry_lease_seconds` \((\d+) s\)")]:
        assert values[setting] == re.search(sentence, text)[1], setting
    assert values["dead_letters.keep_resolved"] == "30d" and "deleted 30 days after" in text
    assert (values["dead_letters.keep_dead"], values["dead_letters.keep_pending"]) == ("never", "never")
    assert values["dead_letters.keep_audit"] == "365d" and "kept for a year (`dead_letters.keep_audit`)" in text
    assert values["kafka.max_value_bytes"] == str(8 << 20) and "`kafka.max_value_bytes` (8 MiB)" in text


def test_every_documented_command_exists(programs):
    rows = re.findall(r"^\| `deliverd dlq ([a-z-]+)[^`]*` \| (.+) \|$", text_of(PAGE), re.MULTILINE)
    usage = programs.run("dlq", "--help").ok().stdout
    names = [name for name, _ in rows]
    assert sorted(names) == sorted(re.findall(r"^  ([a-z-]+) +[A-Z]", usage.partition("ubcommands:")[2], re.MULTILINE))
    for name, reported in rows:
        options = set(re.findall(r"--[a-z-]+", reported))
        assert options <= set(re.findall(r"--[a-z-]+", programs.run("dlq", name, "--help").ok().stdout)), name


def test_every_metric_is_documented():
    guide = text_of("docs/operations.md")
    real = set(re.findall(r'"(dlq_[a-z_]+)"', (ROOT / "src/daemon/dead_letter_service.h").read_text()))
    assert real == set(re.findall(r"^\| `(dlq_[a-z_]+)", guide, re.MULTILINE))
    assert set(re.findall(r"\bdlq_[a-z_]+", "".join(blocks("docs/operations.md", "promql")))) <= real
