"""`doctor` with `kafka:` configured: whether brokers answer, which topics match, whether the group can be read."""

import json
import uuid

import pytest
from harness.kafka import PASSWORD, USER
from harness.ports import free_port
from harness.stores import write_config


@pytest.fixture
def doctor(programs, store, tmp_path):
    """check → (ok, message)"""

    def run(kafka, **sections):
        config = write_config(tmp_path, store, kafka=kafka, **sections)
        done = programs.run("doctor", "--json", "--config", config)
        findings = {finding["check"]: (finding["ok"], finding["message"]) for finding in json.loads(done.stdout)}
        assert done.status == (0 if all(ok for ok, _ in findings.values()) else 1), done.stdout
        return findings

    return run


def test_brokers_that_answer_and_the_topics_that_match(doctor, kafka):
    name = f"doctor-{uuid.uuid4().hex[:8]}"
    section = {"brokers": [kafka.brokers], "consumer_group": f"g-{name}", "dlq_topic_pattern": f"{name}*.dlq.v1"}
    found = doctor(section)
    assert found["kafka"] == (True, "1 broker(s) answer")
    ok, message = found["dead-letter topics"]
    assert ok and "no topic matches" in message and "ten seconds" in message
    for number in range(7):
        kafka.create_topic(f"{name}.{number}.dlq.v1")
    kafka.create_topic(f"{name}.other")
    ok, message = doctor(section)["dead-letter topics"]
    assert ok and message.startswith("7 match ") and f"{name}.0.dlq.v1" in message and message.endswith("and 2 more")
    assert doctor(section)["consumer group"] == (True, f"g-{name} can be read")
    assert "dead-letter topics" not in doctor(section, dead_letters={"ingest": False})


def test_unreachable_brokers(doctor):
    away = f"127.0.0.1:{free_port()}"
    ok, message = doctor({"brokers": [away]})["kafka"]
    assert not ok and away in message and "kafka.brokers" in message
    assert "refused" in message.lower(), "what librdkafka says about it"


def test_permissions_are_checked(doctor, kafka):
    def with_password(password):
        return doctor({"brokers": [kafka.sasl_brokers], "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
                       "sasl_username": USER, "sasl_password": password})["kafka"]

    assert with_password(PASSWORD) == (True, "1 broker(s) answer")
    ok, message = with_password("hunter2-hunter2")
    assert not ok and "uthentication" in message and "kafka.sasl_password" in message
    assert "hunter2" not in message


def test_missing_brokers_are_a_warning(doctor):
    ok, message = doctor({"consumer_group": "g"})["kafka"]
    assert ok and message.startswith("warning") and "kafka.brokers" in message


def test_nothing_is_said_without_kafka(programs, store, tmp_path):
    done = programs.run("doctor", "--config", write_config(tmp_path, store)).ok()
    assert "kafka" not in done.stdout and "consumer group" not in done.stdout
