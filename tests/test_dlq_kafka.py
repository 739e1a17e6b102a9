"""Dead letters from a real Kafka and back: a failed record is shown, and a retry publishes it to its topic again."""

import json
import uuid

from confluent_kafka import Producer
from harness.dlq_service import SUFFIX, DeadLetterService, error, fresh_name, letters_by_offset
from harness.ports import free_port
from harness.service import Service
from harness.stores import write_config
from harness.waiting import wait_for
from harness.web import get

DEADLINE = 40


def produce(kafka, topic, records):
    producer = Producer({"bootstrap.servers": kafka.brokers})
    for key, value, headers in records:
        producer.produce(topic, value, key, headers=headers)
    assert producer.flush(DEADLINE) == 0


def test_there_and_back(programs, store, kafka, tmp_path):
    name = f"orders-{uuid.uuid4().hex[:8]}"
    dead = f"{name}.dlq.v1"
    for topic in (name, dead):
        kafka.create_topic(topic)
    bytes_of_all_kinds = bytes(range(256))
    produce(kafka, dead, [(b"k-1", b'{"n": 1.50}', [("error", b"no stock"), ("trace", b"t-1")]),
                          (None, bytes_of_all_kinds, [("trace", None), ("trace", b"")]),
                          (b"", None, [])])
    port = free_port()
    config = write_config(tmp_path, store, server={"port": port},
                          kafka={"brokers": [kafka.brokers], "consumer_group": f"g-{name}",
                                 "dlq_topic_pattern": f"{name}*.dlq.v1"})
    service = Service(programs, config, port)
    path = f"{service.base}/api/v1/dlq"

    def letters():
        return get(f"{path}/{dead}").json()["messages"]

    wait_for(lambda: len(letters()) == 3, DEADLINE, lambda: f"three letters: {service.process.stderr[-3000:]}")
    found = {letter["offset"]: letter for letter in letters()}
    assert (found[0]["error_message"], found[0]["original_topic"], found[0]["payload"]) == ("no stock", name, {"n": 1.5})
    assert found[1]["payload"] is None and found[1]["error_message"] == "unknown error"
    assert service.metrics()["dlq_ingested_total"] == 3

    answer = get(f"{path}/messages/{found[0]['id']}/retry", method="POST")
    assert answer.json()["status"] == "RESOLVED", answer.text
    rest = json.loads(programs.run("dlq", "retry-all", dead, "--json", "--config", config).ok().stdout)
    assert rest["retried"] == 2
    back = kafka.read_topic(name)
    assert [(message.value(), dict(message.headers())["deliverd-replays"]) for message in back] \
        == [(b'{"n": 1.50}', b"1"), (bytes_of_all_kinds, b"1"), (None, b"1")]
    assert [header for header in back[0].headers() if header[0] != "deliverd-replays"] == [("trace", b"t-1")]
    assert back[1].headers()[:2] == [("trace", None), ("trace", b"")]
    assert back[0].key() == b"k-1" and back[2].key() == b""
    assert service.metrics()['dlq_retries_total{result="published"}'] == 1
    wait_for(lambda: service.metrics().get('dlq_letters{status="RESOLVED"}') == 3, DEADLINE, "the gauge to follow")


def test_a_header_cannot_send_a_retry_where_it_may_not_go(programs, store, kafka, tmp_path):
    """A producer to a dead-letter topic can name any original topic. A retry must not publish to every topic."""
    name = fresh_name("replay")
    foreign = kafka.create_topic(f"payments-{name}")
    kafka.create_topic(name)
    dead = kafka.create_topic(name + SUFFIX)
    produce(kafka, dead, [(b"k", b'{"pay": 1000000}', [(header, foreign.encode())])
                          for header in ("original_topic", "kafka_dlt-original-topic", "__connect.errors.topic")]
            + [(b"k", b"{}", [])])
    service = DeadLetterService(programs, tmp_path, store, kafka, name, kafka_settings={"replay_topics": [name]})
    service.wait_for_letters(store, dead, 4, DEADLINE)
    *forged, honest = (letter_id for _, letter_id in sorted(letters_by_offset(store, dead).items()))
    for letter_id in forged:
        status, code, message = error(service.retry(letter_id))
        assert (status, code) == (409, "SYS_DLQ_CONFLICT") and f"{foreign} is not in kafka.replay_topics" in message
    done = programs.run("dlq", "retry-all", dead, "--json", "--config", service.config).ok()
    assert f"3 to topic {foreign}, refused: " in done.stderr, "it is shown before anything is sent"
    assert (json.loads(done.stdout)["retried"], json.loads(done.stdout)["not_tried"]) == (1, 3)
    assert service.letter(honest)["status"] == "RESOLVED" and len(kafka.read_topic(name)) == 1
    assert [(letter["status"], letter["retry_count"]) for letter in map(service.letter, forged)] == [("PENDING", 0)] * 3
    assert kafka.read_topic(foreign) == []
