"""What happens to an undeliverable event, to those behind it, and to all others."""

import time

import pytest
from harness.event_lanes import (
    add_stream,
    always_ok,
    delete_stream,
    events_config,
    kcat,
    quick,
    rabbit_channel,
    row,
    start_relay,
    state,
    stream_messages,
    take_from_queue,
    wait_for_all_published,
    wait_for_state,
    with_jetstream,
    write,
)
from harness.kafka import KafkaServer, available_or_skip
from harness.nats import NatsServer
from harness.ports import free_port
from harness.rabbitmq import MAX_MESSAGE_BYTES, RabbitServer
from harness.receiver import Answer, Receiver
from harness.service import Service
from harness.stores import audit
from harness.waiting import wait_for

LARGE = '{"text": "' + "x" * 60_000 + '"}'


@pytest.fixture
def relay(programs, store, tmp_path):
    def start(sink, **lane):
        return start_relay(programs, events_config(tmp_path, store, sink, lane=quick(**lane)))

    return start


def trail(store, event):
    return [line for line in audit(store) if line["outbox_id"] == event]


def is_dead_with(store, event, *words):
    """The event is dead, with the reason in the row and in the audit."""
    dead = wait_for_state(store, event, "dead")
    for word in words:
        assert word in dead["last_error"]
    last = trail(store, event)[-1]
    assert (last["reason"], last["status_to"], last["last_error"]) == ("outbox_flush_dead", "dead", dead["last_error"])
    return dead


# --- poison ----------------------------------------------------------------------------------------------------------

def with_poison(store, poison_type="OrderPaid", poison_payload=LARGE):
    """One aggregate with a poison event in the middle, and another aggregate."""
    return (write(store, "order-1", payload="1"), write(store, "order-1", poison_type, poison_payload),
            write(store, "order-1", payload="3"), write(store, "order-2", payload="4"))


def check_poison(store, ids, on_dead, *words):
    before, poison, behind, other = ids
    dead = is_dead_with(store, poison, *words)
    assert dead["retry_count"] == 1, "refused permanently at the first attempt"
    for event in (before, other):
        wait_for_state(store, event, "published")
    if on_dead == "continue":
        wait_for_state(store, behind, "published")
        return
    later = write(store, "order-2", payload="5")  # read after what is blocked
    wait_for_state(store, later, "published")
    assert state(store, behind) == "open"
    store.query("UPDATE outbox SET published = ?, dead_at = NULL WHERE id = ? RETURNING id", True, poison)
    wait_for_state(store, behind, "published")


@pytest.mark.parametrize("on_dead", ["continue", "block"])
def test_too_large_for_kafka(store, kafka, relay, on_dead):
    topic = kafka.create_topic(f"failures.small.{store.kind}.{on_dead}", settings={"max.message.bytes": "20000"})
    ids = with_poison(store)
    relay({"type": "kafka", "brokers": kafka.brokers, "topic": topic}, on_dead=on_dead)
    check_poison(store, ids, on_dead, "MESSAGE_TOO_LARGE", topic, "max.message.bytes")
    assert [message.value() for message in kafka.read_topic(topic) if message.key() == b"order-1"] == [b"1", b"3"]


@pytest.mark.parametrize("on_dead", ["continue", "block"])
def test_an_invalid_kafka_topic_name(store, kafka, relay, on_dead):
    kafka_topic = f"failures.{store.kind}.{on_dead}.order.paid"
    kafka.create_topic(kafka_topic)
    ids = with_poison(store, "Order paid €", "2")
    relay({"type": "kafka", "brokers": kafka.brokers, "topic": f"failures.{store.kind}.{on_dead}.{{event_type}}"},
          on_dead=on_dead)
    check_poison(store, ids, on_dead, "BAD_TOPIC", "order paid €")


@pytest.fixture
def stream(nats_server):
    name = f"f{time.monotonic_ns()}"
    add_stream(nats_server.url(), name, f"{name}.>", max_msg_size=20_000)
    yield name
    delete_stream(nats_server.url(), name)


@pytest.mark.parametrize("on_dead", ["continue", "block"])
def test_too_large_for_a_stream(store, nats_server, stream, relay, on_dead):
    ids = with_poison(store)
    relay({"type": "nats", "url": nats_server.url(), "topic": f"{stream}.{{event_type}}"}, on_dead=on_dead)
    check_poison(store, ids, on_dead, "MESSAGE_TOO_LARGE")


def test_too_large_for_the_nats_server(store, relay):
    with NatsServer({"max_payload": 20_000}) as server:
        add_stream(server.url(), "S", "order.>")
        ids = with_poison(store)
        relay({"type": "nats", "url": server.url()})
        check_poison(store, ids, "continue", "MESSAGE_TOO_LARGE", "60012")
        assert [message.data for message in stream_messages(server.url(), "S")
                if message.headers["aggregate_id"] == "order-1"] == [b"1", b"3"]


def test_an_invalid_nats_subject(store, nats_server, stream, relay):
    ids = with_poison(store, "order..paid >", "2")
    relay({"type": "nats", "url": nats_server.url(), "topic": f"{stream}.{{event_type}}"})
    check_poison(store, ids, "continue", "BAD_TOPIC", "order..paid >")


def test_too_large_for_rabbitmq(store, rabbit, relay):
    with rabbit_channel(rabbit) as channel:
        channel.queue_declare("order.paid")
        ids = with_poison(store, poison_payload='"' + "x" * MAX_MESSAGE_BYTES + '"')
        relay({"type": "rabbitmq", "url": rabbit})
        check_poison(store, ids, "continue", "PRECONDITION_FAILED", "larger than configured max size")


@pytest.mark.parametrize("on_dead", ["continue", "block"])
@pytest.mark.parametrize("status,code", [(413, "REJECTED"), (400, "BAD_REQUEST")])
def test_refused_over_http(store, receiver, relay, on_dead, status, code):
    receiver.answer_with(lambda call: Answer(status if len(call.raw_body) > 1000 else 200, {}))
    ids = with_poison(store)
    relay({"type": "http", "url": receiver.url}, on_dead=on_dead)
    check_poison(store, ids, on_dead, code, str(status))
    assert [call.raw_body for call in receiver.calls if call.headers["x-aggregate-id"] == "order-1"] == \
        [b"1", LARGE.encode(), b"3"]


# --- missing destinations --------------------------------------------------------------------------------------------

def test_an_unknown_topic_is_named_and_waited_for(store, kafka, relay):
    """auto.create.topics.enable is off."""
    topic = f"failures.unknown.{store.kind}"
    event = write(store)
    relay({"type": "kafka", "brokers": kafka.brokers, "topic": topic}, retry={"max": 1000})
    waiting = wait_for_state(store, event, "waiting", 60)
    assert "UNKNOWN_TOPIC" in waiting["last_error"] and topic in waiting["last_error"]
    assert "create it" in waiting["last_error"]
    kafka.create_topic(topic)
    wait_for_state(store, event, "published", 60)
    assert len(kafka.read_topic(topic)) == 1


def test_a_missing_stream_is_named(store, nats_server, relay):
    event = write(store, event_type="NobodyHasThis")
    relay({"type": "nats", "url": nats_server.url()})
    is_dead_with(store, event, "NO_STREAM", "nobody.has.this")


def test_an_unroutable_message_waits_for_its_queue(store, rabbit, relay):
    with rabbit_channel(rabbit) as channel:
        channel.exchange_declare("shop", "topic")
        event = write(store)
        relay({"type": "rabbitmq", "url": rabbit, "exchange": "shop"}, retry={"max": 1000})
        waiting = wait_for_state(store, event, "waiting")
        assert "order.paid" in waiting["last_error"]
        channel.queue_declare("paid")
        channel.queue_bind("paid", "shop", "order.paid")
        assert take_from_queue(channel, "paid")[1].message_id == row(store, event)["event_id"]
        wait_for_state(store, event, "published")


def test_an_unavailable_stream_delays_no_other(store, relay, tmp_path):
    """The server's memory is full, its disk is not. More aggregates wait for one stream than the sink may hold."""
    room = {"store_dir": str(tmp_path / "streams"), "max_memory_store": 50_000, "max_file_store": 1 << 30}
    with NatsServer({"jetstream": room}) as server:
        add_stream(server.url(), "MEMORY", "order.lost", storage="memory")
        add_stream(server.url(), "DISK", "order.paid")
        with_jetstream(server.url(), lambda streams, _client: streams.publish("order.lost", b"x" * 60_000))
        away = [write(store, f"away-{number}", "OrderLost") for number in range(20)]
        others = [write(store, f"other-{number}") for number in range(20)]
        relay({"type": "nats", "url": server.url()}, parallelism=4, retry={"max": 1000})
        for event in others:
            wait_for_state(store, event, "published")

        def one_is_counted():
            write(store, "other-0")  # delivered meanwhile
            return [event for event in away if row(store, event)["retry_count"]]

        wait_for(one_is_counted, 60, "an attempt to be counted")
        assert "NO_RESOURCES" in row(store, one_is_counted()[0])["last_error"]
        assert not {state(store, event) for event in away} & {"published", "dead"}
        with_jetstream(server.url(), lambda streams, _client: streams.purge_stream("MEMORY"))
        wait_for_all_published(store)


# --- retries ---------------------------------------------------------------------------------------------------------

def test_a_failed_event_waits_and_so_do_those_behind_it(store, receiver, relay):
    """Other aggregates are delivered meanwhile; then this one continues in order."""
    ids = [write(store, "order-1", payload=str(number)) for number in (1, 2, 3)]
    fixed = []
    receiver.answer_with(lambda call: Answer(503 if call.raw_body == b"2" and not fixed else 200, {}))
    relay({"type": "http", "url": receiver.url, "breaker_failures": 0}, retry={"base_seconds": 0.3, "max": 1000})
    wait_for_state(store, ids[1], "waiting")
    others = [write(store, f"other-{number}", payload=str(10 + number)) for number in range(20)]
    behind = write(store, "order-1", payload="4")
    for event in others:
        wait_for_state(store, event, "published")
    wait_for(lambda: receiver.times()[row(store, ids[1])["event_id"]] >= 3, 20, "three attempts")
    assert [state(store, event) for event in (ids[0], ids[2], behind)] == ["published", "open", "open"]
    found = row(store, ids[1])
    assert "503" in found["last_error"] and found["retry_count"] >= 2
    assert {line["reason"] for line in trail(store, ids[1])} == {"outbox_flush_retry"}
    fixed.append(True)
    wait_for_all_published(store)
    bodies = [call.raw_body for call in receiver.calls if call.headers["x-aggregate-id"] == "order-1"]
    assert bodies == [b"1", *[b"2"] * (len(bodies) - 3), b"3", b"4"]


def test_the_waits_are_those_configured(store, receiver, relay):
    """Never earlier; how much later depends on the machine."""
    receiver.answer_with(lambda call: Answer(503, {}))
    event = write(store)
    relay({"type": "http", "url": receiver.url}, retry={"base_seconds": 0.3, "factor": 2, "cap_seconds": 1, "max": 5})
    dead = is_dead_with(store, event, "503")
    assert dead["retry_count"] == 5
    times = [call.at for call in receiver.calls]
    assert len(times) == 5
    for (earlier, later), wait in zip(zip(times, times[1:]), (0.3, 0.6, 1, 1)):
        assert later - earlier >= wait * 0.95  # the settle's own moment is on the database's clock
    assert [line["reason"] for line in trail(store, event)] == ["outbox_flush_retry"] * 4 + ["outbox_flush_dead"]


def test_retry_after_is_obeyed(store, receiver, relay):
    receiver.answer_with(lambda call: Answer(503 if call.attempt == 1 else 200, {}, {"Retry-After": "2"}))
    event = write(store)
    relay({"type": "http", "url": receiver.url})
    wait_for_state(store, event, "published")
    first, second = [call.at for call in receiver.calls]
    assert second - first >= 1.9


# --- unreachable brokers ---------------------------------------------------------------------------------------------

class Later:
    """A broker whose address is known before it starts."""

    def __init__(self, server, sink, prepare):
        self.server, self.sink, self._prepare = server, sink, prepare

    def come(self):
        self.server.start()
        self._prepare(self.server)


def kafka_later():
    available_or_skip()
    server = KafkaServer({"auto.create.topics.enable": "true"})
    return Later(server, {"type": "kafka", "brokers": server.brokers, "timeout_ms": 4000}, lambda _: None)


def rabbitmq_later():
    server = RabbitServer()

    def declare(server):
        with rabbit_channel(server.url()) as channel:
            channel.queue_declare("order.paid", durable=True)

    return Later(server, {"type": "rabbitmq", "url": server.url(), "connect_timeout_ms": 500}, declare)


def nats_later():
    server = NatsServer()
    return Later(server, {"type": "nats", "url": server.url(), "timeout_ms": 10000, "connect_timeout_ms": 500},
                 lambda server: add_stream(server.url(), "S", "order.>"))


@pytest.mark.parametrize("make", [kafka_later, rabbitmq_later, nats_later], ids=["kafka", "rabbitmq", "nats"])
def test_while_a_broker_is_unreachable_no_attempt_is_counted(postgres, programs, tmp_path, make):
    """The broker is down from the start, and for longer than all attempts would take."""
    later = make()
    try:
        ids = [write(postgres, f"order-{number % 2}", payload=str(number)) for number in range(6)]
        port = free_port()
        config = events_config(tmp_path, postgres, later.sink, server={"port": port},
                               lane=quick(retry={"max": 2, "base_seconds": 0.05}))
        service = Service(programs, config, port, until_ready=False)
        service.process.wait_for_stderr("nothing can be sent: waiting")
        heads = 2  # of the two aggregates: the events tried in each turn
        wait_for(lambda: service.total(r'^sink_send_seconds_count{lane="events",outcome="retryable"}') >= 5 * heads, 60,
                 lambda: service.process.stderr)
        assert service.process.stderr.count("nothing can be sent: waiting") == 1, "once a minute"
        for event in ids:
            assert (state(postgres, event), row(postgres, event)["retry_count"]) == ("open", 0)
        assert audit(postgres) == []
        later.come()
        wait_for_all_published(postgres, 60)
        assert audit(postgres) == []
    finally:
        later.server.remove()


def test_an_event_without_a_type_is_dead_where_the_topic_needs_one(kafka, postgres, programs, tmp_path):
    """In a mapped table: an event with a null type is neither skipped silently nor delays the rest of its aggregate."""
    postgres.query("CREATE TABLE legacy (id bigint PRIMARY KEY, aggregatetype text, aggregateid text, type text,"
                   " payload text)")
    postgres.query("INSERT INTO legacy VALUES (1, NULL, NULL, NULL, NULL), (2, NULL, NULL, 'InvoicePaid', NULL)")
    kafka.create_topic("invoice.paid")
    start_relay(programs, events_config(tmp_path, postgres, {"type": "kafka", "brokers": kafka.brokers},
                                        lane=quick(table="legacy", columns="debezium")))
    wait_for(lambda: postgres.query("SELECT id FROM legacy") == [{"id": 1}], 30, lambda: postgres.query("TABLE legacy"))
    (dead,) = postgres.query("SELECT row_id, aggregate_id, dead_at, last_error FROM deliverd.event_failures")
    assert (dead["row_id"], dead["aggregate_id"]) == ("1", "") and dead["dead_at"] is not None
    assert "'' is not a topic's name" in dead["last_error"]
    (message,) = kcat(kafka, "invoice.paid")
    assert not message["payload"]


def test_an_unreachable_receiver_is_left_alone_after_some_failures(store, receiver, relay):
    """HTTP has no connection to lose: failures count until the circuit breaker opens."""
    receiver.answer_with(lambda call: Answer(503, {}))
    ids = [write(store, f"order-{number}") for number in range(10)]
    relay({"type": "http", "url": receiver.url, "breaker_failures": 5, "breaker_seconds": 1}, parallelism=1,
          retry={"max": 1000})
    wait_for(lambda: receiver.count() >= 5, 20, "the failures that open it")
    always_ok(receiver)
    wait_for_all_published(store)
    assert sum(row(store, event)["retry_count"] for event in ids) >= 5


def test_a_dead_receiver_does_not_lose_events(store, relay):
    receiver = Receiver()
    port_taken = receiver.url
    receiver.close()
    event = write(store)
    relay({"type": "http", "url": port_taken}, retry={"max": 1000})
    assert "NETWORK_TIMEOUT" in wait_for_state(store, event, "waiting")["last_error"]
