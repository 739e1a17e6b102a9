"""Consumers see what docs/events.md says ("What arrives"), field by field, checked with tools independent of
deliverd: kcat, pika, nats-py, and a receiver that verifies signatures with hmac."""

import base64
import calendar
import hashlib
import hmac
import json
import re
import time
from urllib.parse import quote

import pytest
from harness.documents import text_of
from harness.event_lanes import (
    add_stream,
    always_ok,
    created_text,
    delete_stream,
    events_config,
    header_text,
    kcat,
    rabbit_channel,
    row,
    rows,
    start_relay,
    stream_messages,
    take_from_queue,
    wait_for_all_published,
    write,
)
from harness.waiting import wait_for

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
METADATA = {
    "traceparent": TRACE,
    "tracestate": "vendor=1",
    "correlation_id": "c 1",
    "number": 42,
    "nested": {"b": [1, "x"], "a": None},
    "flag": True,
    "nothing": None,
    "with space": "x",
    "größe": "€ 5",
    "line": "a\nb",
    "percent": "%41 100%",
    "empty": "",
    "aggregate_id": "forged",
}
PAYLOADS = {
    "numbers": '{"big":123456789012345678901234567890.12345678901234567890,"exp":1e5,"zeros":1.500,"minus":-0}',
    "keys": '{"bb":1,"a":2,"aaa":3,"B":4,"bb":5}',
    "unicode": '{"ü€😀":"日本","escaped":"\\u00e9\\ud83d\\ude00"}',
    "escapes": r'{"a":"\"\\\/\b\f\n\r\t\u0001\u007f"}',
    "nested": '{"a":[[[{"b":[]}]],{},null,true,false]}',
    "spaces": ' { "a" :\t[ 1 ,2 ] }\n',
    "text": '"just text"',
    "nothing": "null",
    "large": json.dumps({"text": "xyz€" * 80_000, "end": 1}, ensure_ascii=False),
}


@pytest.fixture
def stream(nats_server):
    """The name of a stream for this test alone, with every subject that begins with it."""
    name = f"s{time.monotonic_ns()}"
    add_stream(nats_server.url(), name, f"{name}.>")
    yield name
    delete_stream(nats_server.url(), name)


@pytest.fixture
def relay_once(programs, store, tmp_path):
    """Relays everything in the table to `sink` and ends."""

    def run(sink, **lane):
        relay = start_relay(programs, events_config(tmp_path, store, sink, lane=lane))
        wait_for_all_published(store)
        relay.terminate()
        assert relay.wait() == 0, relay.stderr

    return run


def expected_metadata(store, event):
    """The metadata entries in database order, values as text, without names that deliverd reserves."""
    pairs = re.findall(r'"((?:[^"\\]|\\.)*)"\s*:\s*("(?:[^"\\]|\\.)*"|\{[^}]*\}|[^,}]+)', row(store, event)["metadata"])
    found = [(json.loads(f'"{name}"'), header_text(value)) for name, value in pairs]
    assert {name for name, _ in found} == set(METADATA)
    return [(name, value) for name, value in found if name != "aggregate_id"]


def write_odd_one(store):
    return write(store, "order-ü 1", "OrderPaid", '{"total": 42}', json.dumps(METADATA, ensure_ascii=False))


def as_written(store, payload):
    """PostgreSQL: as it prints jsonb. SQLite: the stored text."""
    if store.kind == "sqlite":
        return payload
    return store.query("SELECT CAST(? AS jsonb)::text AS text", payload)[0]["text"]


# --- Kafka -----------------------------------------------------------------------------------------------------------

def test_kafka_has_key_headers_in_order_and_bytes(store, kafka, relay_once):
    topic = kafka.create_topic(f"contents.{store.kind}.order.paid")
    event = write_odd_one(store)
    relay_once({"type": "kafka", "brokers": kafka.brokers, "topic": f"contents.{store.kind}.{{event_type}}"})
    (message,) = kcat(kafka, topic)
    assert message["key"] == "order-ü 1"
    assert message["payload"] == row(store, event)["payload"]
    assert message["headers"] == [
        ("message_id", row(store, event)["event_id"]), ("aggregate_id", "order-ü 1"), ("event_type", "OrderPaid"),
        ("created_at", created_text(store, event)), *expected_metadata(store, event)]


def test_kafka_values_are_the_payloads_bytes(store, kafka, relay_once):
    topic = kafka.create_topic(f"contents.{store.kind}.payloads")
    for payload in PAYLOADS.values():
        write(store, payload=payload)
    relay_once({"type": "kafka", "brokers": kafka.brokers, "topic": topic})
    assert [message.value() for message in kafka.read_topic(topic)] == \
        [as_written(store, payload).encode() for payload in PAYLOADS.values()]


def test_an_aggregate_is_one_partition(postgres, kafka, programs, tmp_path):
    topic = kafka.create_topic("contents.partitions", partitions=4)
    for number in range(40):
        write(postgres, f"order-{number % 10}", payload=str(number))
    start_relay(programs, events_config(tmp_path, postgres, {"type": "kafka", "brokers": kafka.brokers, "topic": topic}))
    wait_for_all_published(postgres)
    partitions = {}
    for message in kafka.read_topic(topic):
        partitions.setdefault(message.key(), []).append((message.partition(), int(message.value())))
    assert len(partitions) == 10
    for key, seen in partitions.items():
        assert len({partition for partition, _ in seen}) == 1
        assert [number for _, number in seen] == sorted(number for _, number in seen), key
    assert len({seen[0][0] for seen in partitions.values()}) > 1


# --- RabbitMQ --------------------------------------------------------------------------------------------------------

def test_rabbitmq_has_properties_headers_and_bytes(store, rabbit, relay_once):
    with rabbit_channel(rabbit) as channel:
        channel.exchange_declare("shop", "topic", durable=True)
        channel.queue_declare("paid", durable=True)
        channel.queue_bind("paid", "shop", "order.*")
        event = write_odd_one(store)
        relay_once({"type": "rabbitmq", "url": rabbit, "exchange": "shop"})
        method, properties, body = take_from_queue(channel, "paid")
        assert (method.exchange, method.routing_key) == ("shop", "order.paid")
        created = created_text(store, event)
        assert properties.message_id == row(store, event)["event_id"]
        assert properties.type == "OrderPaid"
        assert properties.timestamp == calendar.timegm(time.strptime(created[:19], "%Y-%m-%dT%H:%M:%S"))
        assert properties.delivery_mode == 2
        assert properties.content_type == "application/json"
        assert properties.headers == {"aggregate_id": "order-ü 1", "event_type": "OrderPaid", "created_at": created,
                                      **dict(expected_metadata(store, event))}
        assert body.decode() == row(store, event)["payload"]
        assert channel.basic_get("paid")[0] is None


def test_rabbitmqs_default_exchange_and_the_payloads_bytes(store, rabbit, relay_once):
    with rabbit_channel(rabbit) as channel:
        channel.queue_declare("order.paid", durable=True)
        for payload in PAYLOADS.values():
            write(store, payload=payload)
        relay_once({"type": "rabbitmq", "url": rabbit})
        for name, payload in PAYLOADS.items():
            assert take_from_queue(channel, "order.paid")[2] == as_written(store, payload).encode(), name


# --- NATS ------------------------------------------------------------------------------------------------------------

def nats_name(name):
    """Each byte that a header name cannot contain becomes a dash."""
    return "".join(chr(byte) if 33 <= byte < 127 and byte != ord(":") else "-" for byte in name.encode())


def header_value(value):
    """A value with anything but visible ASCII and inner spaces, or with a percent sign, is percent-encoded."""
    plain = all(32 <= ord(c) < 127 and c != "%" for c in value) and value == value.strip(" ")
    return value if plain else quote(value, safe="".join(chr(c) for c in range(33, 127) if chr(c) not in '"%'))


def test_nats_has_its_id_headers_and_bytes(store, nats_server, stream, relay_once):
    event = write_odd_one(store)
    relay_once({"type": "nats", "url": nats_server.url(), "topic": f"{stream}.{{event_type}}"})
    (message,) = stream_messages(nats_server.url(), stream)
    assert message.subject == f"{stream}.order.paid"
    assert message.data.decode() == row(store, event)["payload"]
    assert message.headers == {
        "Nats-Msg-Id": row(store, event)["event_id"], "Content-Type": "application/json",
        "aggregate_id": header_value("order-ü 1"), "event_type": "OrderPaid", "created_at": created_text(store, event),
        **{nats_name(name): header_value(value) for name, value in expected_metadata(store, event)}}


def test_nats_data_are_the_payloads_bytes(store, nats_server, stream, relay_once):
    for payload in PAYLOADS.values():
        write(store, payload=payload)
    relay_once({"type": "nats", "url": nats_server.url(), "topic": f"{stream}.all"})
    assert [message.data for message in stream_messages(nats_server.url(), stream)] == \
        [as_written(store, payload).encode() for payload in PAYLOADS.values()]


# --- HTTP ------------------------------------------------------------------------------------------------------------

def http_name(name):
    return "x-" + "".join(chr(byte).lower() if chr(byte).isalnum() and byte < 128 else "-" for byte in name.encode())


def test_http_has_its_key_headers_trace_and_bytes(store, receiver, relay_once):
    event = write_odd_one(store)
    relay_once({"type": "http", "url": always_ok(receiver).url})
    (call,) = receiver.calls
    assert call.key == row(store, event)["event_id"]
    assert call.headers["content-type"] == "application/json"
    assert call.headers["traceparent"] == TRACE
    assert call.headers["tracestate"] == "vendor=1"
    assert call.raw_body.decode() == row(store, event)["payload"]
    own = {"x-aggregate-id": header_value("order-ü 1"), "x-event-type": "OrderPaid",
           "x-created-at": created_text(store, event)}
    assert {name: value for name, value in call.headers.items() if name.startswith("x-")} == \
        own | {http_name(name): header_value(value) for name, value in expected_metadata(store, event)}


def test_http_metadata_forges_no_header_that_receivers_trust(store, receiver, relay_once):
    """None of those that the page lists, nor one with such a prefix."""
    page = " ".join(text_of("docs/events.md").split())
    reported = re.search("would believe about the sender(.+?)Give it another name", page)[1]
    trusted = re.findall(r"`X-([\w-]+)(…?)`", reported)
    assert {("SSL-", "…"), ("Forwarded", "…"), ("User", ""), ("Consumer-", "…")} <= set(trusted)
    forged = [(name + ("Id" if more else "")).replace("-", "_") for name, more in trusted]
    write(store, metadata=json.dumps(dict.fromkeys([*forged, *map(str.lower, forged)], "forged") | {"author": "ann"}))
    relay_once({"type": "http", "url": always_ok(receiver).url})
    (call,) = receiver.calls
    assert call.headers["x-author"] == "ann"
    assert [name for name, value in call.headers.items() if "forged" in value] == []


def test_http_bodies_are_the_payloads_bytes_and_signed(store, receiver, relay_once):
    """The signature is verified as Standard Webhooks prescribes."""
    secret = bytes(range(32))
    for payload in PAYLOADS.values():
        write(store, payload=payload)
    before = int(time.time())
    relay_once({"type": "http", "url": always_ok(receiver).url, "secret": "whsec_" + base64.b64encode(secret).decode()})
    assert [call.raw_body for call in receiver.calls] == \
        [as_written(store, payload).encode() for payload in PAYLOADS.values()]
    for call, event in zip(receiver.calls, rows(store)):
        assert call.headers["webhook-id"] == call.key == event["event_id"]
        stamp = call.headers["webhook-timestamp"]
        assert before <= int(stamp) <= time.time() + 1
        signed = f"{event['event_id']}.{stamp}.".encode() + call.raw_body
        digest = hmac.new(secret, signed, hashlib.sha256).digest()
        assert call.headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()


# --- CloudEvents -----------------------------------------------------------------------------------------------------
# The CloudEvents specification's example, as far as an outbox row can carry it.

ATTRIBUTES = {"specversion": "1.0", "id": "A234-1234-1234", "source": "/mycontext", "type": "com.example.someevent",
              "time": "2018-04-05T17:31:00.000Z", "subject": "123", "partitionkey": "123",
              "comexampleextension1": "value", "comexampleothervalue": "5"}
DATA = '{"appinfoA" : "abc", "appinfoB" : 123, "appinfoC" : true}'


@pytest.fixture
def example(sqlite):
    sqlite.query("INSERT INTO outbox (aggregate_id, event_type, payload, created_at, event_id, metadata)"
                 " VALUES ('123', 'com.example.someevent', ?, '2018-04-05T17:31:00Z', 'A234-1234-1234',"
                 """ '{"comexampleextension1": "value", "comExample_otherValue": 5, "id": "forged", "_": 1}')""", DATA)
    return sqlite


@pytest.fixture
def relay_example(example, programs, tmp_path):
    def run(sink):
        start_relay(programs, events_config(tmp_path, example, sink | {"format": "cloudevents", "source": "/mycontext"}))
        wait_for_all_published(example)

    return run


def test_cloudevents_on_kafka(kafka, relay_example):
    topic = kafka.create_topic("contents.cloudevents")
    relay_example({"type": "kafka", "brokers": kafka.brokers, "topic": topic})
    (message,) = kcat(kafka, topic)
    assert message["headers"] == [("content-type", "application/json"),
                                  *[(f"ce_{name}", value) for name, value in ATTRIBUTES.items()]]
    assert (message["key"], message["payload"]) == (ATTRIBUTES["partitionkey"], DATA)


def test_cloudevents_on_rabbitmq(rabbit, relay_example):
    with rabbit_channel(rabbit) as channel:
        channel.queue_declare("com.example.someevent")
        relay_example({"type": "rabbitmq", "url": rabbit})
        _, properties, body = take_from_queue(channel, "com.example.someevent")
        assert properties.headers == {f"cloudEvents:{name}": value for name, value in ATTRIBUTES.items()}
        assert (properties.content_type, body.decode()) == ("application/json", DATA)


def test_cloudevents_on_nats(nats_server, stream, relay_example):
    relay_example({"type": "nats", "url": nats_server.url(), "topic": f"{stream}.x"})
    (message,) = stream_messages(nats_server.url(), stream)
    assert message.headers == {"Nats-Msg-Id": "A234-1234-1234", "Content-Type": "application/json",
                               "ce-datacontenttype": "application/json",
                               **{f"ce-{name}": value for name, value in ATTRIBUTES.items()}}
    assert message.data.decode() == DATA


def test_cloudevents_over_http(receiver, relay_example):
    relay_example({"type": "http", "url": always_ok(receiver).url})
    (call,) = receiver.calls
    assert {name: value for name, value in call.headers.items() if name.startswith(("ce-", "x-"))} == \
        {f"ce-{name}": value for name, value in ATTRIBUTES.items()}
    assert (call.key, call.headers["content-type"], call.raw_body.decode()) == \
        ("A234-1234-1234", "application/json", DATA)


def test_cloudevents_values_are_percent_encoded_where_the_bindings_say_so(postgres, programs, receiver, tmp_path):
    write(postgres, "Euro € 😀", "T", metadata='{"quote": "a \\"b\\" 100%"}')
    sink = {"type": "http", "url": always_ok(receiver).url, "format": "cloudevents"}
    start_relay(programs, events_config(tmp_path, postgres, sink))
    wait_for_all_published(postgres)
    (call,) = receiver.calls
    assert call.headers["ce-subject"] == "Euro%20%E2%82%AC%20%F0%9F%98%80", "the specification's own example"
    assert call.headers["ce-quote"] == "a%20%22b%22%20100%25"
    assert call.headers["ce-source"] == "/deliverd/events"


# --- topics ----------------------------------------------------------------------------------------------------------

def test_topics_by_template(postgres, programs, tmp_path):
    """The console shows the topic each event would go to."""
    types = {"OrderPaid": "order.paid", "HTTPRequestSent": "http.request.sent", "order_paid": "order.paid",
             "order-paid.v2": "order-paid.v2", "Order": "order"}
    for event_type in types:
        write(postgres, "order-1", event_type)
    sink = {"type": "console", "topic": "shop.{event_type}/{event_type_raw}/{aggregate_id}!"}
    relay = start_relay(programs, events_config(tmp_path, postgres, sink))
    wait_for(lambda: relay.stdout.count("\n") == len(types), 20, lambda: relay.stderr)
    assert [json.loads(line)["topic"] for line in relay.stdout.splitlines()] == \
        [f"shop.{dotted}/{raw}/order-1!" for raw, dotted in types.items()]
