"""Bodies that are wrong, cut off, endless or slow: a clear answer or a closed connection. Others are served."""

import json
import socket

import pytest
from harness.orders import ORDERS, OrderService, an_order, error_code, everything, order_statuses
from harness.waiting import wait_for
from harness.web import Dripping

KEY = "order-0001"
LARGE_BODY_BYTES = 2_000_000
LEVELS = 10_000
DEADLINE_SECONDS = 60


def body(**raw):
    """An order whose fields are these JSON texts."""
    fields = {name: json.dumps(value) for name, value in an_order(KEY).items()} | raw
    return ("{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}").encode()


def nested(opening, closing):
    return body(meta='{"a":' + opening * LEVELS + "1" + closing * LEVELS + "}")


BAD_JSON = (400, "BAD_JSON")
INVALID = (422, "VALIDATION_ERROR")
REFUSED = {
    "empty": (b"", BAD_JSON),
    "only spaces": (b" \r\n\t ", BAD_JSON),
    "half": (body()[:-20], BAD_JSON),
    "two values": (body() + body(), BAD_JSON),
    "an array": (b"[" + body() + b"]", BAD_JSON),
    "a text": (b'"order"', BAD_JSON),
    "null": (b"null", BAD_JSON),
    "trailing comma": (body()[:-1] + b",}", BAD_JSON),
    "comment": (body()[:-1] + b"/* */}", BAD_JSON),
    "single quotes": (body().replace(b'"', b"'"), BAD_JSON),
    "byte order mark": (b"\xef\xbb\xbf" + body(), BAD_JSON),
    "UTF-16": (body().decode().encode("utf-16"), BAD_JSON),
    "10,000 arrays": (nested("[", "]"), BAD_JSON),
    "10,000 objects": (nested('{"a":', "}"), BAD_JSON),
    "10,000 arrays never closed": (body(meta="[" * LEVELS)[:-1], BAD_JSON),
    "duplicate key": (body()[:-1] + b',"qty":6}', BAD_JSON),
    "duplicate key, escaped": (body()[:-1] + b',"\\u0071ty":6}', BAD_JSON),
    "duplicate key inside": (body(meta='{"a":1,"a":2}'), BAD_JSON),
    "invalid UTF-8": (body(meta='{"a":"caf@"}').replace(b"@", b"\xe9"), BAD_JSON),
    "overlong UTF-8": (body(meta='{"a":"@"}').replace(b"@", b"\xc0\xaf"), BAD_JSON),
    "surrogate in UTF-8": (body(meta='{"a":"@"}').replace(b"@", b"\xed\xa0\x80"), BAD_JSON),
    "lone surrogate escape": (body(meta='{"a":"\\ud800"}'), BAD_JSON),
    "NUL byte": (body(meta='{"a":"@"}').replace(b"@", b"\x00"), BAD_JSON),
    "line break in a text": (body(meta='{"a":"x\ny"}'), BAD_JSON),
    "NaN": (body(qty="NaN"), BAD_JSON),
    "Infinity": (body(qty="-Infinity"), BAD_JSON),
    "hexadecimal": (body(qty="0x10"), BAD_JSON),
    "leading zero": (body(qty="010"), BAD_JSON),
    "1e400": (body(qty="1e400"), {BAD_JSON, INVALID}),
    "1e400 in meta": (body(meta='{"a":1e400}'), {BAD_JSON, INVALID}),
    "number of 5,000 digits": (body(qty="1" * 5000), {BAD_JSON, INVALID}),
    "too small to be more than 0": (body(qty="1e-400"), {BAD_JSON, INVALID}),
    "NUL escape": (body(meta='{"a":"\\u0000"}'), INVALID),
    "NUL escape in a name": (body(meta='{"\\u0000":1}'), INVALID),
    "NUL escape in the symbol": (body(symbol='"ABC\\u0000"'), INVALID),
    "zero": (body(qty="0.000"), INVALID),
    "minus zero": (body(qty="-0"), INVALID),
    "a number as a text": (body(qty='"5"'), INVALID),
    "huge symbol": (body(symbol='"' + "A" * 500_000 + '"'), INVALID),
    "huge trace id": (body(trace_id='"' + "t" * 500_000 + '"'), INVALID),
    "huge field name": (body(**{"x" * 500_000: "1"}), INVALID),
    "70,000 unknown fields": (body(**{f"f{number}": "1" for number in range(70_000)}), INVALID),
    "meta that is no object": (body(meta="[]"), INVALID),
}


@pytest.fixture
def service(programs, store, tmp_path):
    return OrderService(programs, tmp_path, store)


def raw_request(content, length=None, extra=b""):
    length = len(content) if length is None else length
    return (b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\n"
            b"Content-Length: %d\r\n%s\r\n" % (ORDERS.encode(), KEY.encode(), length, extra)) + content


def connect(service):
    return socket.create_connection(("127.0.0.1", service.port), timeout=DEADLINE_SECONDS)


def everything_until_closed(connection):
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received


def check_unharmed(service, store):
    """Nothing was stored, the service runs, and a valid order is accepted."""
    assert everything(store) == ([], [], [])
    assert service.process.alive()
    assert service.client().post(an_order(KEY)).status == 201
    assert order_statuses(store) == {"queued": 1}


def test_bodies_that_are_not_orders(service, store):
    client, others = service.client(), service.client()
    for name, (content, expected) in REFUSED.items():
        page = client.post(content, key=KEY)
        assert page.status, f"{name}: no answer: {page.text}"
        assert error_code(page) in (expected if isinstance(expected, set) else {expected}), f"{name}: {page.text[:500]}"
        error = page.json()["error"]
        assert error["message"] and len(page.text) < 20_000, f"{name}: {len(page.text)} characters"
        assert others.look("order-none").status == 404, name
    assert client.connections == 1, "a wrong body does not end the connection"
    check_unharmed(service, store)


def test_unusual_but_valid_bodies(service, store):
    """JSON is UTF-8 whatever the charset says, and meta may hold a long text."""
    client = service.client()
    long_text = "x" * 500_000
    strange = [(an_order("order-0003"), {"Content-Type": "application/json; charset=latin-1"}),
               (an_order("order-0004", meta={"text": long_text}), {}),
               (an_order("order-0005", meta={"text": "Grüße ☃ \U0001f600"}), {})]
    for order, headers in strange:
        page = client.post(order, headers=headers)
        assert page.status == 201, page.text
    assert client.look("order-0004").json()["request"]["meta"] == {"text": long_text}
    assert client.look("order-0005").json()["request"]["meta"] == {"text": "Grüße ☃ \U0001f600"}
    assert order_statuses(store) == {"queued": len(strange)}


def test_a_body_cut_off_midway(service, store):
    whole = body()
    for keep in (0, 1, len(whole) // 2, len(whole) - 1):
        with connect(service) as connection:
            connection.sendall(raw_request(whole[:keep], length=len(whole)))
            connection.shutdown(socket.SHUT_WR)
            assert b" 201 " not in everything_until_closed(connection)
    for keep in (1, len(whole) - 1):
        connection = connect(service)
        connection.sendall(raw_request(whole[:keep], length=len(whole)))
        connection.close()
    check_unharmed(service, store)


def test_a_client_that_leaves_before_its_answer_has_its_order_stored_all_the_same(service, store):
    """The client does not know, posts again, and gets the answer."""
    with connect(service) as connection:
        connection.sendall(raw_request(body()))
    wait_for(lambda: order_statuses(store) == {"queued": 1}, DEADLINE_SECONDS, "the order")
    assert service.client().post(body()).status == 200


def test_two_megabytes(service, store):
    large = body(meta=json.dumps({"text": "x" * LARGE_BODY_BYTES}))
    for request in (raw_request(large), raw_request(b"", length=len(large)),
                    raw_request(b"", length=10**15),
                    raw_request(b"", length=len(large), extra=b"Expect: 100-continue\r\n")):
        with connect(service) as connection:
            try:
                connection.sendall(request)
            except (ConnectionResetError, BrokenPipeError):
                pass  # it can refuse without reading more
            answer = everything_until_closed(connection)
            assert answer.startswith(b"HTTP/1.1 413 ") and b"PAYLOAD_TOO_LARGE" in answer, answer[:300]
    chunks = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with connect(service) as connection:
        connection.sendall(raw_request(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"))
        try:
            for _ in range(LARGE_BODY_BYTES // 0x10000 + 1):
                connection.sendall(chunks)
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert everything_until_closed(connection).startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 411 "))
    check_unharmed(service, store)


def test_lengths_that_contradict_each_other(service, store):
    """A request that a proxy could read differently is refused, and what follows is not read as a request."""
    whole = body()
    smuggled = raw_request(whole)
    for extra in (b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Length: -1\r\n"):
        with connect(service) as connection:
            connection.sendall(raw_request(b"0\r\n\r\n" + smuggled, length=5, extra=extra) if b"Transfer" in extra
                               else raw_request(whole, extra=extra))
            connection.shutdown(socket.SHUT_WR)
            answer = everything_until_closed(connection)
            assert b" 201 " not in answer and (answer == b"" or answer.startswith(b"HTTP/1.1 400 ")), answer[:300]
    check_unharmed(service, store)


def test_one_byte_a_second(programs, store, tmp_path):
    service = OrderService(programs, tmp_path, store, server={"body_timeout_seconds": 2})
    beginning = raw_request(body()[:10], length=1000)
    slow = [Dripping(connect(service), beginning) for _ in range(10)]
    client, waiting, served = service.client(), list(slow), []

    def all_are_closed():
        nonlocal waiting
        served.append(client.look("order-none").status)
        waiting = [one for one in waiting if not one.is_closed()]
        return not waiting

    try:
        wait_for(all_are_closed, DEADLINE_SECONDS, lambda: f"{len(waiting)} slow clients to be closed")
    finally:
        for one in slow:
            one.socket.close()
    assert set(served) == {404}, "others were served meanwhile"
    assert all(one.received == b"" or one.received.startswith(b"HTTP/1.1 408 ") for one in slow)
    check_unharmed(service, store)
