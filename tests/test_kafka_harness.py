"""The harness's Kafka broker: what other tests rely on."""

import json
import subprocess

import pytest
from confluent_kafka import KafkaException, Producer
from harness.kafka import PASSWORD, USER, KafkaServer, available_or_skip


def produce(server, topic, *values, brokers=None, **settings):
    """Sends the values and returns the errors of those that did not arrive."""
    errors = []
    producer = Producer({"bootstrap.servers": brokers or server.brokers, "message.timeout.ms": 4000, "log_level": 0}
                        | {name.replace("_", "."): value for name, value in settings.items()})
    for value in values:
        producer.produce(topic, value, key=b"k", on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(120) == 0
    return errors


def values_in(server, topic):
    return [message.value() for message in server.read_topic(topic)]


def test_creates_no_topics_by_itself_and_reads_one(kafka):
    kafka.create_topic("harness.two", partitions=2)
    assert produce(kafka, "harness.two", b"1", b"2") == []
    assert values_in(kafka, "harness.two") == [b"1", b"2"]
    errors = produce(kafka, "harness.unknown", b"x", topic_metadata_propagation_max_ms=200)
    assert [error.name() for error in errors] == ["UNKNOWN_TOPIC_OR_PART"]
    assert "harness.unknown" not in kafka.topics()


def test_every_listener_accepts_only_the_right_credentials(kafka):
    kafka.create_topic("harness.doors")
    sasl = {"brokers": kafka.sasl_brokers, "security_protocol": "sasl_plaintext", "sasl_mechanism": "PLAIN",
            "sasl_username": USER}
    assert produce(kafka, "harness.doors", b"sasl", sasl_password=PASSWORD, **sasl) == []
    assert len(produce(kafka, "harness.doors", b"wrong", sasl_password="wrong", **sasl)) == 1
    tls = {"brokers": kafka.ssl_brokers, "security_protocol": "ssl"}
    assert produce(kafka, "harness.doors", b"tls", ssl_ca_location=str(kafka.ca_file), **tls) == []
    assert len(produce(kafka, "harness.doors", b"strange", **tls)) == 1
    both = sasl | {"brokers": kafka.sasl_ssl_brokers, "security_protocol": "sasl_ssl",
                   "ssl_ca_location": str(kafka.ca_file)}
    assert produce(kafka, "harness.doors", b"both", sasl_password=PASSWORD, **both) == []
    assert len(produce(kafka, "harness.doors", b"half", sasl_password="wrong", **both)) == 1
    assert values_in(kafka, "harness.doors") == [b"sasl", b"tls", b"both"]


def test_kcat_reads_it(kafka):
    kafka.create_topic("harness.kcat")
    produce(kafka, "harness.kcat", b"hello")
    out = subprocess.run(["kcat", "-C", "-J", "-e", "-q", "-b", kafka.brokers, "-t", "harness.kcat"],
                         capture_output=True, check=True, timeout=240).stdout
    assert json.loads(out)["payload"] == "hello"


def test_settings_kill_pause_and_restart():
    available_or_skip()
    with KafkaServer({"auto.create.topics.enable": "true", "message.max.bytes": "2000"}) as server:
        assert produce(server, "made.by.itself", b"before") == []
        assert [error.name() for error in produce(server, "made.by.itself", b"x" * 3000)] == ["MSG_SIZE_TOO_LARGE"]
        server.kill9()
        server.start()
        assert values_in(server, "made.by.itself") == [b"before"]
        server.pause()
        with pytest.raises(KafkaException):
            server._admin().list_topics(timeout=0.5)
        server.resume()
        assert produce(server, "made.by.itself", b"after") == []
        server.restart()
        assert values_in(server, "made.by.itself") == [b"before", b"after"]
        folder = server.folder
    assert not folder.exists()
