"""Orders while everything dies: exactly the accepted orders reach the broker, each under its one key."""

import signal
import threading

import pytest
from harness.orders import OrderService, Posters, an_order, check_trail, order_rows, order_statuses, trails
from harness.receiver import Answer
from harness.waiting import wait_for

# Orders of a killed process are stuck this long.
LANE = {"stuck_threshold_min": 0.02, "batch_size": 10}
DONE_DEADLINE_SECONDS = 40
POINTS = ["store.during_accept", "lane.after_claim", "lane.before_send", "lane.after_send", "lane.before_settle",
          "store.during_settle"]
OUTAGE = {(503, "DATABASE_UNAVAILABLE"), (503, "OUTCOME_UNKNOWN")}
ANSWERS = {(201, None), (200, None)}


def wait_until_sent(store, posters):
    count = len(posters.accepted())
    wait_for(lambda: order_statuses(store) == {"sent": count}, DONE_DEADLINE_SECONDS,
             lambda: f"{count} orders to be sent: {order_statuses(store)}")


def check_everything_arrived_once(store, broker, posters):
    """Clients, database and broker agree on which orders exist."""
    accepted = posters.accepted()
    assert broker.keys() == accepted
    assert set(broker.times()) == accepted
    broker.check_every_attempt_was_the_same()
    rows = {row["idempotency_key"]: row for row in order_rows(store)}
    assert set(rows) == accepted
    assert {row["status"] for row in rows.values()} == {"sent"}
    assert posters.ids == {key: {row["id"]} for key, row in rows.items()}
    assert all(times <= 1 for times in posters.created.values()), "an order is created once"
    found = trails(store)
    assert set(found) == accepted
    for lines in found.values():
        check_trail(lines)
    results = store.query("SELECT idempotency_key FROM idempo_ledger WHERE result_digest IS NOT NULL")
    assert {row["idempotency_key"] for row in results} == accepted


@pytest.fixture
def start(programs, broker, tmp_path):
    return lambda store, **more: OrderService(programs, tmp_path, store, broker, **{"lane": LANE} | more)


@pytest.fixture
def backlog(programs, store, tmp_path):
    """Orders that wait when the lane starts: it sends several at once, and dies while it does."""
    service = OrderService(programs, tmp_path, store)
    early = Posters([service.port], orders_each=15, prefix="early")
    early.finish(at_once=False)
    service.process.terminate()
    assert service.process.wait() == 0
    return early


@pytest.mark.parametrize("point", POINTS)
def test_killed_while_clients_post(start, store, backlog, broker, point):
    victim = start(store, failpoints=f"{point}=crash@3", until_ready=False)
    posters = Posters([victim.port], orders_each=15)
    assert victim.process.wait() == -signal.SIGKILL, victim.process.stderr
    if point.startswith("lane."):
        assert order_statuses(store)["sending"] > 0, "it held orders when it died"
    start(store, port=victim.port)
    posters.finish(at_once=False)
    posters.add(backlog)
    assert len(posters.accepted()) == 120
    wait_until_sent(store, posters)
    assert set(posters.answers) <= ANSWERS | {(0, None)}
    check_everything_arrived_once(store, broker, posters)


def test_killed_again_and_again_from_outside(start, store, broker):
    """Killed at random moments."""
    service = start(store)
    posters = Posters([service.port])
    for enough in (40, 80, 120):
        posters.wait_for_accepted(enough)
        service.process.kill9()
        service = start(store, port=service.port)
    posters.wait_for_accepted(160)
    posters.finish()
    wait_until_sent(store, posters)
    check_everything_arrived_once(store, broker, posters)


def test_stopped_while_clients_post(start, store, broker):
    """SIGTERM: the process gives everything back, so the next one can start at once."""
    service = start(store, lane=LANE | {"stuck_threshold_min": 10})
    posters = Posters([service.port])
    for enough in (50, 100):
        posters.wait_for_accepted(enough)
        service.process.terminate()
        assert service.process.wait() == 0, service.process.stderr
        assert "sending" not in order_statuses(store)
        service = start(store, port=service.port, lane=LANE | {"stuck_threshold_min": 10})
    posters.finish()
    wait_until_sent(store, posters)
    check_everything_arrived_once(store, broker, posters)
    assert all(times == 1 for times in broker.times().values()), "and nothing was sent twice"


def down(posters):
    """How many posts were answered with "database unavailable"."""
    return sum(posters.count(*answer) for answer in OUTAGE)


@pytest.mark.parametrize("how, rounds", [("fast", 2), ("immediate", 1), ("kill -9", 1)])
def test_postgresql_restarted_while_clients_post(start, restartable, broker, how, rounds):
    service = start(restartable, database={"pool_wait_seconds": 0.3})
    posters = Posters([service.port])
    server = restartable.server
    for round_number in range(1, rounds + 1):
        posters.wait_for_accepted(100 * round_number)
        before = down(posters)
        if how == "kill -9":
            server.kill9()
        else:
            server.stop(signal.SIGINT if how == "fast" else signal.SIGQUIT)
        wait_for(lambda: down(posters) > before, 20, lambda: f"a post to be refused: {posters.answers}")
        server.start()
    posters.wait_for_accepted(100 * (rounds + 1))
    posters.finish()
    wait_until_sent(restartable, posters)
    assert service.process.alive() and service.get("/readyz").status == 200, "it recovered by itself"
    assert set(posters.answers) <= ANSWERS | OUTAGE, "a clear answer, always"
    check_everything_arrived_once(restartable, broker, posters)


def test_connections_to_postgresql_cut_while_clients_post(start, postgres, proxy, broker):
    """Also in the middle of a commit: then the outcome is unknown, and posting again resolves it."""
    service = start(None, database={"url": postgres.server.url(postgres.database, port=proxy.port)})
    posters = Posters([service.port])
    for enough in range(40, 400, 40):
        posters.wait_for_accepted(enough)
        wait_for(proxy.cut, 20, "a connection to cut")
    posters.finish()
    wait_until_sent(postgres, posters)
    assert set(posters.answers) <= ANSWERS | OUTAGE
    check_everything_arrived_once(postgres, broker, posters)


def claimers(store):
    return {line["worker"] for lines in trails(store).values() for line in lines if line["reason"] == "outbox_claim"}


def test_two_processes_and_one_is_killed(start, store, broker):
    left, right = (start(store, name=f"{name}.yaml") for name in ("left", "right"))
    posters = Posters([left.port, right.port], count=3)
    others = Posters([right.port, left.port], count=3, prefix="other")
    posters.wait_for_accepted(60)
    others.wait_for_accepted(60)
    wait_for(lambda: len(claimers(store)) == 2, 20, "both to send")
    left.process.kill9()
    posters.wait_for_accepted(120)
    posters.finish()
    others.finish()
    posters.add(others)
    wait_until_sent(store, posters)
    check_everything_arrived_once(store, broker, posters)
    assert len(claimers(store)) == 2


def test_a_worker_that_lost_its_order_cannot_settle_it(start, store, broker):
    """The first worker slept too long and lost the order to the second. Its answer no longer counts."""
    first_may_hear, second_may_hear = threading.Event(), threading.Event()

    def process_later(call):
        answer = broker.process(call)
        answer.hold = second_may_hear
        return answer

    broker.first_answers(Answer(400, hold=first_may_hear), process_later)
    patient = LANE | {"stuck_threshold_min": 0.06, "sink": {"type": "http", "url": broker.url, "timeout_ms": 30000}}
    first = start(store, name="first.yaml", lane=patient)
    client = first.client()
    client.post(an_order("order-0001"))
    wait_for(lambda: broker.count() == 1, 20, "the first send")
    first.process.stop_outside_a_transaction(store)
    second = start(store, name="second.yaml", lane=patient)
    wait_for(lambda: broker.count() == 2, 20, "the second send")
    first.process.send(signal.SIGCONT)
    first_may_hear.set()
    client = second.client()

    def conflicts():
        return [line for line in client.look("order-0001").json()["audit"] if line["reason"] == "outbox_flush_conflict"]

    wait_for(conflicts, 20, lambda: f"the conflict to be noted: {client.look('order-0001').text}")
    assert client.look("order-0001").json()["status"] == "sending"
    second_may_hear.set()
    order = client.wait_for_status("order-0001", "sent")
    assert order["result"] == broker.result("order-0001")
    check_trail(trails(store)["order-0001"])
    broker.check_every_attempt_was_the_same()
