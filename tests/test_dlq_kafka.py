"""Dead letters from a real Kafka and back: what a consumer gave up on is shown, and its topic gets it again."""

import json
import uuid

from confluent_kafka import Producer

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
