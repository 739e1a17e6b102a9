"""From commit to consumer: writers that commit single events at a steady rate, a consumer that stamps what arrives.

Three processes on one clock (CLOCK_MONOTONIC): this one, the writers and the consumer. An event's time begins when its
writer was told that it is committed. The ceiling beside it: the writer itself produces the event right after its
commit. That is the dual write that loses events, and the least that broker and consumer take on this machine.
"""

import json
import multiprocessing
import threading
import time

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition

CONNECTIONS = 8
AGGREGATES = 1000
WARM_UP_SECONDS = 10  # not counted: the broker's JVM compiles what it runs often
DEADLINE_SECONDS = 120
INSERT = "INSERT INTO outbox (aggregate_id, event_type, payload) VALUES (%s, 'placed', %s::jsonb)"


def _write_some(url, number, rate, seconds, committed, produce):
    """One connection's part of the rate, each event in a transaction of its own; falls behind rather than skip."""
    with psycopg.connect(url, autocommit=True) as connection:
        every = CONNECTIONS / rate
        begin = time.monotonic() + number * every / CONNECTIONS
        pause = threading.Event()
        for count in range(int(seconds / every)):
            due = begin + count * every
            pause.wait(max(0.0, due - time.monotonic()))
            event = number + CONNECTIONS * count
            payload = json.dumps({"n": event, "text": "x" * 170})
            aggregate = f"order-{event % AGGREGATES}"
            connection.execute(INSERT, (aggregate, payload), prepare=True)
            committed[event] = time.monotonic()
            if produce:
                produce(aggregate, payload)


def _write(url, rate, seconds, answers, brokers, topic):
    """With `brokers` the writer produces to `topic` itself."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0, "enable.idempotence": True,
                         "log_level": 0}) if brokers else None

    def produce(aggregate, payload):
        producer.produce(topic, payload, aggregate)
        producer.poll(0)

    parts = [{} for _ in range(CONNECTIONS)]
    threads = [threading.Thread(target=_write_some, args=(url, number, rate, seconds, part, producer and produce))
               for number, part in enumerate(parts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if producer:
        producer.flush(DEADLINE_SECONDS)
    answers.put({event: at for part in parts for event, at in part.items()})


def _consume(brokers, topic, ready, expected, answers):
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "bench", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, "log_level": 0})
    numbers = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    consumer.poll(0)
    ready.set()
    arrived, deadline = {}, time.monotonic() + DEADLINE_SECONDS
    while len(arrived) < expected and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        at = time.monotonic()
        if message is not None and not message.error():
            arrived.setdefault(json.loads(message.value())["n"], at)
    consumer.close()
    answers.put(arrived)


def _at(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]


def measure(url, brokers, topic, rate, seconds, *, bare=False):
    spawn = multiprocessing.get_context("spawn")
    ready, written, arrived = spawn.Event(), spawn.Queue(), spawn.Queue()
    total = seconds + WARM_UP_SECONDS
    every = CONNECTIONS / rate
    expected = int(total / every) * CONNECTIONS
    consumer = spawn.Process(target=_consume, args=(brokers, topic, ready, expected, arrived), daemon=True)
    writer = spawn.Process(target=_write, args=(url, rate, total, written, brokers if bare else None, topic),
                           daemon=True)
    consumer.start()
    if not ready.wait(30):
        raise RuntimeError("the consumer did not start")
    writer.start()
    try:
        commits = written.get(timeout=DEADLINE_SECONDS)
        arrivals = arrived.get(timeout=DEADLINE_SECONDS)
    finally:
        for process in (writer, consumer):
            process.join(5)
            process.kill()
    missing = len(commits.keys() - arrivals.keys())
    if missing:
        raise RuntimeError(f"{missing} of {len(commits)} events did not arrive")
    begin = min(commits.values()) + WARM_UP_SECONDS
    took = sorted(1000 * (arrivals[event] - at) for event, at in commits.items() if at >= begin)
    span = max(commits.values()) - begin
    return {"rate_wanted": rate, "rate": round(len(took) / span), "events": len(took), "seconds": round(span, 1),
            "p50_ms": round(_at(took, 0.5), 2), "p95_ms": round(_at(took, 0.95), 2),
            "p99_ms": round(_at(took, 0.99), 2), "max_ms": round(took[-1], 1)}
