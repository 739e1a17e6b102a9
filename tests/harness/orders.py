"""Orders: a service that accepts them, clients that post them over a kept connection, and a broker that receives them."""

import http.client
import json
import threading
from collections import Counter

from harness.ports import free_port
from harness.receiver import Answer, Receiver
from harness.service import Service
from harness.stores import write_config
from harness.waiting import wait_for
from harness.web import TIMEOUT_SECONDS, Page

ORDERS = "/api/v1/orders"
ANSWERED_DEADLINE_SECONDS = 60
# Waits are short so that a test with retries ends soon. Real waits are tested with a simulated clock.
QUICK_LANE = {"idle_sleep_ms": 20, "retry": {"base_seconds": 0.05, "factor": 1, "jitter": 0}}


def an_order(key, **changes):
    return {"idempotency_key": key, "symbol": "ACME.X", "intent": "BUY", "qty": 5} | changes


def error_code(page):
    return page.status, page.json()["error"]["code"]


# ---- the broker ----

class Broker(Receiver):
    """Accepts each order once: answers with its key, or with 409 if the key is known. A script can override this."""

    def __init__(self):
        super().__init__()
        self._taken = {}
        self.answer_with(self.process)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/orders"

    def process(self, call):
        if not self.take_order(call):
            return Answer(409, {"code": "already_processed", "idempotency_key": call.key})
        return Answer(201, self.result(call.key))

    def take_order(self, call):
        """Stores the order; False if it was known."""
        with self._lock:
            return self._taken.setdefault(call.key, call.number) == call.number

    def result(self, key):
        """The answer for an accepted order."""
        return {"idempotency_key": key, "broker_order_id": f"b-{self._taken[key]}"}

    def first_answers(self, *scripted):
        """Uses these in turn for the first attempts of each key (an Answer, or a function of the call); then process()."""

        def script(call):
            if call.attempt > len(scripted):
                return self.process(call)
            answer = scripted[call.attempt - 1]
            return answer(call) if callable(answer) else answer

        self.answer_with(script)

    def take_and_drop(self, call):
        self.take_order(call)
        return Answer(drop=True)

    def keys(self):
        """The keys of the orders it accepted."""
        with self._lock:
            return set(self._taken)

    def attempts(self, key):
        return [call for call in self.calls if call.key == key]

    def check_every_attempt_was_the_same(self):
        """Asserts the same key in header and body, and the same body, at every attempt of an order."""
        bodies = {}
        for call in self.calls:
            assert call.body["idempotency_key"] == call.key
            assert bodies.setdefault(call.key, call.raw_body) == call.raw_body


# ---- the service ----

class OrderService(Service):
    """`serve` with the lane `orders` to a broker; without a broker it only accepts orders."""

    def __init__(self, programs, folder, store, broker=None, *, lane=None, port=None, name="deliverd.yaml", env=None,
                 failpoints=None, until_ready=True, server=None, **sections):
        self.port = port or free_port()
        self.config = write_orders_config(folder, store, broker, lane=lane, name=name,
                                          server={"port": self.port} | (server or {}), **sections)
        super().__init__(programs, self.config, self.port, until_ready, env=env, failpoints=failpoints)

    def client(self, token=None):
        return Client([self.port], token)


def write_orders_config(folder, store, broker=None, *, lane=None, name="deliverd.yaml", **sections):
    if broker is not None:
        settings = {"outbox": "orders", "sink": {"type": "http", "url": broker.url}} | QUICK_LANE | (lane or {})
        sections["lanes"] = {"orders": settings}
    return write_config(folder, store, name=name, **sections)


# ---- clients ----

class Client:
    """One kept connection at a time; after a failure it goes to the next port. For one thread."""

    def __init__(self, ports, token=None):
        self._ports = list(ports)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = None
        self.connections = 0  # the number of connections opened

    def ask(self, method, path, body=None, headers=None):
        """The answer; status 0 if there was none, whatever happened to the request."""
        try:
            if self._connection is None:
                self.connect()
            kind = {"Content-Type": "application/json"} if body else {}
            self._connection.request(method, path, body, kind | self._headers | (headers or {}))
            answer = self._connection.getresponse()
            page = Page(answer.status, dict(answer.headers), answer.read().decode())
        except (OSError, http.client.HTTPException) as error:
            self.close()
            self._ports.append(self._ports.pop(0))
            return Page(0, {}, str(error))
        return page

    def post(self, order, key=None, headers=None):
        """`key` is the header's, by default the order's own. "" omits the header."""
        body = order if isinstance(order, bytes) else json.dumps(order).encode()
        key = json.loads(body)["idempotency_key"] if key is None else key
        return self.ask("POST", ORDERS, body, ({"Idempotency-Key": key} if key else {}) | (headers or {}))

    def look(self, key):
        return self.ask("GET", f"{ORDERS}/{key}")

    def wait_for_status(self, key, status, deadline_seconds=20):
        """Waits until the order has this status; returns it."""

        def found():
            order = self.look(key).json()
            return order if order["status"] == status else None

        return wait_for(found, deadline_seconds, lambda: f"order {key} to be {status}: {self.look(key).text}")

    def connect(self):
        self.connections += 1
        self._connection = http.client.HTTPConnection("127.0.0.1", self._ports[0], timeout=TIMEOUT_SECONDS)
        self._connection.auto_open = 0  # the server must not close it unnoticed
        self._connection.connect()

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Posters:
    """Clients on their own threads. Each posts one order after another, each until it is answered."""

    def __init__(self, ports, count=4, orders_each=None, prefix="poster"):
        """Without `orders_each` they continue until finish()."""
        self._lock = threading.Lock()
        self._enough = threading.Event()
        self._failures = []
        self.answers = Counter()  # (status, error code): how often
        self.ids = {}  # key → the set of ids that answers named
        self.created = Counter()  # key → how often it was answered 201
        self._threads = [threading.Thread(target=self._run, args=(f"{prefix}{number}", ports, orders_each), daemon=True)
                         for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, name, ports, orders_each):
        client = Client(ports)
        number = 0
        try:
            while not self._enough.is_set() and (orders_each is None or number < orders_each):
                number += 1
                key = f"{name}-{number:05}"
                wait_for(lambda: self._answered(client, key), ANSWERED_DEADLINE_SECONDS, f"an answer to {key}")
        except BaseException as failure:  # reported by finish(): pytest does not look into threads
            self._failures.append(failure)
        finally:
            client.close()

    def _answered(self, client, key):
        page = client.post(an_order(key))
        with self._lock:
            if page.status in (200, 201):
                self.answers[page.status, None] += 1
                self.ids.setdefault(key, set()).add(page.json()["id"])
                self.created[key] += page.status == 201
            else:
                self.answers[error_code(page) if page.status else (0, None)] += 1
        return page.status in (200, 201)

    def accepted(self):
        with self._lock:
            return set(self.ids)

    def add(self, others):
        """Adds the results of `others`, which have finished."""
        self.answers += others.answers
        self.created += others.created
        self.ids |= others.ids

    def count(self, *answer):
        with self._lock:
            return self.answers[answer]

    def wait_for_accepted(self, count):
        wait_for(lambda: self._failures or len(self.accepted()) >= count, ANSWERED_DEADLINE_SECONDS,
                 lambda: f"{count} orders to be accepted: {len(self.accepted())}, {self.answers}")
        self._tell()

    def finish(self, at_once=True):
        """Ends each client after its current order is answered; with `at_once=False`, after all its orders."""
        if at_once:
            self._enough.set()
        for thread in self._threads:
            thread.join(2 * ANSWERED_DEADLINE_SECONDS)
        self._tell()
        assert not any(thread.is_alive() for thread in self._threads)

    def _tell(self):
        if self._failures:
            raise self._failures[0]


# ---- the tables ----

def order_rows(store):
    return store.query("SELECT * FROM outbox_orders ORDER BY id")


def order_statuses(store):
    rows = store.query("SELECT status, count(*) AS n FROM outbox_orders GROUP BY status")
    return {found["status"]: found["n"] for found in rows}


def everything(store):
    """Everything stored about orders."""
    ledger = store.query("SELECT * FROM idempo_ledger ORDER BY idempotency_key")
    return order_rows(store), ledger, store.query("SELECT * FROM outbox_audit ORDER BY audit_id")


def trails(store):
    """Each order's transitions, oldest first, by key."""
    found = {}
    for line in store.query("SELECT * FROM outbox_audit WHERE outbox = 'orders' ORDER BY audit_id"):
        found.setdefault(line["idempotency_key"], []).append(line)
    return found


def check_trail(lines, end="sent"):
    """Asserts: accepted once, an unbroken chain of transitions, and the given end."""
    moves = [line for line in lines if line["status_to"] is not None]
    reported = [(line["reason"], line["status_from"], line["status_to"]) for line in moves]
    assert [line["reason"] for line in lines].count("order_accepted") == 1, reported
    assert reported[0] == ("order_accepted", None, "queued"), reported
    for before, after in zip(moves, moves[1:]):
        assert after["status_from"] == before["status_to"], reported
    assert moves[-1]["status_to"] == end, reported
    assert [line["status_to"] for line in moves].count(end) == 1, reported
