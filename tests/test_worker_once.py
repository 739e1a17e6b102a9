"""`worker --once`: one batch, and every outcome of an attempt, on both stores."""

import email.utils
import threading
import time

import pytest
from harness.receiver import Answer, answers
from harness.stores import audit, by_status, fill, key, row, write_config
from harness.waiting import wait_for

JITTER = 0.3
CLOCK_SLACK_SECONDS = 20  # between the settle and the look at it; far below the waits compared


@pytest.fixture
def once(programs, store, receiver, tmp_path):
    """Runs one batch; returns the program's output."""

    def run(*flags, lane=None):
        config = write_config(tmp_path, store, receiver, lane=lane)
        return programs.run("worker", "--lane", "memories", "--once", "--config", config, *flags)

    return run


def test_success_is_sent_with_the_receivers_id(store, receiver, once):
    ids = fill(store, 5)
    once().ok()
    assert by_status(store) == {"sent": 5}
    for outbox_id in ids:
        settled = row(store, outbox_id)
        assert settled["last_error"] == f"memory_id=mem-{outbox_id}"
        assert settled["locked_by"] is None and settled["locked_at"] is None
        assert settled["retry_count"] == 0
    assert receiver.times() == {key(outbox_id): 1 for outbox_id in ids}
    assert len(audit(store, "outbox_flush_success")) == 5


def test_the_request_carries_the_row(store, receiver, once):
    (outbox_id,) = fill(store, 1, space="a space/with ünïcode")
    once().ok()
    (call,) = receiver.calls
    stored = row(store, outbox_id)
    assert call.headers["content-type"] == "application/json"
    assert call.body == {name: stored[name] for name in
                         ("outbox_id", "item_id", "target_space", "payload_md", "payload_sha")}


def test_an_empty_table_is_success(receiver, once):
    once().ok()
    assert receiver.count() == 0


def test_one_batch_and_no_more(store, receiver, once):
    fill(store, 5)
    once("--batch-size", "2").ok()
    assert by_status(store) == {"sent": 2, "pending": 3}
    assert receiver.count() == 2


def test_rows_leave_in_due_order(store, receiver, once):
    ids = fill(store, 6)
    once(lane={"parallelism": 1}).ok()
    assert [call.key for call in receiver.calls] == [key(outbox_id) for outbox_id in ids]


@pytest.mark.parametrize("failures", [1, 3])
def test_a_5xx_is_retried_later_by_the_databases_clock(store, receiver, once, failures):
    (outbox_id,) = fill(store, 1)
    receiver.answer_with(answers(then=503))
    for _ in range(failures):
        store.make_due()
        assert once().status == 1
    waiting = row(store, outbox_id)
    assert (waiting["status"], waiting["retry_count"], waiting["locked_by"]) == ("pending", failures, None)
    assert "BROKER_5XX" in waiting["last_error"]
    wait = 60 * 2**failures
    ahead = store.seconds_from_now("next_attempt_at", outbox_id)
    assert wait * (1 - JITTER) - CLOCK_SLACK_SECONDS <= ahead <= wait * (1 + JITTER)
    assert len(audit(store, "outbox_flush_retry")) == failures
    once().ok()  # not due: nothing to do
    assert receiver.count() == failures


def test_a_retry_that_succeeds_keeps_its_count(store, receiver, once):
    (outbox_id,) = fill(store, 1)
    receiver.answer_with(answers(500))
    assert once().status == 1
    store.make_due()
    once().ok()
    settled = row(store, outbox_id)
    assert (settled["status"], settled["retry_count"]) == ("sent", 1)


@pytest.mark.parametrize("status, code", [(400, "BAD_REQUEST"), (422, "BAD_REQUEST"), (401, "UNAUTHORIZED"),
                                          (403, "UNAUTHORIZED"), (404, "REJECTED"), (409, "REJECTED")])
def test_a_refusal_is_dead_at_once(store, receiver, once, status, code):
    (outbox_id,) = fill(store, 1)
    receiver.answer_with(answers(then=status))
    assert once().status == 1
    dead = row(store, outbox_id)
    assert (dead["status"], dead["retry_count"], dead["locked_by"]) == ("dead", 1, None)
    assert code in dead["last_error"]
    assert len(audit(store, "outbox_flush_dead")) == 1
    store.make_due()
    once().ok()
    assert receiver.count() == 1


def test_a_409_that_says_already_processed_is_sent(store, receiver, once):
    (outbox_id,) = fill(store, 1)
    receiver.answer_with(lambda call: Answer(409, {"error": "already processed", "idempotency_key": call.key}))
    once().ok()
    assert row(store, outbox_id)["status"] == "sent"


def test_a_409_for_another_key_is_retried(store, receiver, once):
    (outbox_id,) = fill(store, 1)
    receiver.answer_with(lambda call: Answer(409, {"error": "already processed", "idempotency_key": "memory-999"}))
    assert once().status == 1
    waiting = row(store, outbox_id)
    assert (waiting["status"], waiting["retry_count"]) == ("pending", 1)
    assert "UNKNOWN" in waiting["last_error"]


def test_a_dropped_connection_is_retried(store, receiver, once):
    (outbox_id,) = fill(store, 1)
    receiver.answer_with(lambda call: Answer(drop=True))
    assert once().status == 1
    waiting = row(store, outbox_id)
    assert (waiting["status"], waiting["retry_count"]) == ("pending", 1)
    assert "NETWORK_TIMEOUT" in waiting["last_error"]
    assert receiver.count() == 1, "the sink must not retry by itself"


def test_an_answer_that_comes_too_late_is_retried(store, receiver, once):
    (outbox_id,) = fill(store, 1)
    never = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=never))
    assert once(lane={"sink": {"type": "http", "url": receiver.url, "timeout_ms": 300}}).status == 1
    never.set()
    waiting = row(store, outbox_id)
    assert (waiting["status"], waiting["retry_count"]) == ("pending", 1)
    assert "NETWORK_TIMEOUT" in waiting["last_error"]


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(store, receiver, once, form):
    (outbox_id,) = fill(store, 1)
    asked = 1000  # much longer than the retry policy would wait
    value = str(asked) if form == "seconds" else email.utils.formatdate(time.time() + asked, usegmt=True)
    receiver.answer_with(lambda call: Answer(429, headers={"Retry-After": value}))
    assert once().status == 1
    assert "RATE_LIMITED" in row(store, outbox_id)["last_error"]
    ahead = store.seconds_from_now("next_attempt_at", outbox_id)
    assert asked - CLOCK_SLACK_SECONDS <= ahead <= asked * (1 + JITTER)


def test_the_last_retry_is_dead_with_its_count(store, receiver, once):
    (outbox_id,) = fill(store, 1)
    receiver.answer_with(answers(then=500))
    flags = ("--max-retries", "2", "--base-backoff", "1")
    assert once(*flags).status == 1
    assert row(store, outbox_id)["retry_count"] == 1
    store.make_due()
    assert once(*flags).status == 1
    dead = row(store, outbox_id)
    assert (dead["status"], dead["retry_count"]) == ("dead", 2)
    assert receiver.count() == 2
    assert [len(audit(store, reason)) for reason in ("outbox_flush_retry", "outbox_flush_dead")] == [1, 1]


def test_equal_content_is_sent_once(store, receiver, once):
    first = fill(store, 1)[0]
    once().ok()
    second = fill(store, 1)[0]
    assert row(store, first)["payload_sha"] == row(store, second)["payload_sha"]
    once().ok()
    assert receiver.times() == {key(first): 1}
    assert row(store, second)["status"] == "sent"
    assert row(store, second)["last_error"] == row(store, first)["last_error"] == f"memory_id=mem-{first}"
    assert len(audit(store, "outbox_flush_dedup_hit")) == 1


def test_equal_content_in_one_batch_is_sent_once(store, receiver, once):
    first = fill(store, 1)[0]
    second = fill(store, 1)[0]
    others = fill(store, 3, start=2)
    once().ok()
    assert receiver.times() == {key(outbox_id): 1 for outbox_id in [first, *others]}
    assert by_status(store) == {"sent": 5}
    assert row(store, second)["last_error"] == row(store, first)["last_error"] == f"memory_id=mem-{first}"


def test_equal_content_whose_first_send_failed_is_not_taken_for_sent(store, receiver, once):
    """The second of two equal rows may be sent instead of the first, but never settled as its duplicate."""
    first = fill(store, 1)[0]
    second = fill(store, 1)[0]
    receiver.answer_with(lambda call: Answer(500 if call.key == key(first) else 200))
    assert once().status == 1
    assert (row(store, first)["status"], row(store, first)["retry_count"]) == ("pending", 1)
    assert row(store, second)["status"] == "sent"
    assert row(store, second)["last_error"] == f"memory_id=mem-{second}"
    store.make_due()
    once().ok()
    assert row(store, first)["last_error"] == f"memory_id=mem-{second}"
    assert receiver.times() == {key(first): 1, key(second): 1}


def test_equal_content_for_another_space_is_sent(store, receiver, once):
    first = fill(store, 1, space="one")[0]
    once().ok()
    second = fill(store, 1, space="two")[0]
    once().ok()
    assert receiver.times() == {key(first): 1, key(second): 1}


def test_some_fail_and_the_others_arrive(store, receiver, once):
    ids = fill(store, 20)
    bad = {key(outbox_id) for outbox_id in ids[::4]}
    receiver.answer_with(lambda call: Answer(500 if call.key in bad else 200))
    assert once().status == 1
    assert by_status(store) == {"sent": 15, "pending": 5}
    assert {key(found["outbox_id"]) for found in
            store.query("SELECT outbox_id FROM outbox_memory WHERE retry_count = 1")} == bad


def test_an_unreachable_receiver_costs_a_retry(store, receiver, once):
    (outbox_id,) = fill(store, 1)
    receiver.close()
    assert once().status == 1
    waiting = row(store, outbox_id)
    assert (waiting["status"], waiting["retry_count"]) == ("pending", 1)


def test_a_row_stolen_meanwhile_is_left_alone_and_audited_once(store, receiver, programs, tmp_path):
    (outbox_id,) = fill(store, 1)
    gate = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=gate))
    config = write_config(tmp_path, store, receiver)
    worker = programs.start("worker", "--lane", "memories", "--once", "--worker-id", "loser", "--config", config)
    wait_for(lambda: receiver.count() == 1, 20, "the send")
    store.query("UPDATE outbox_memory SET locked_by = 'thief' WHERE outbox_id = ?", outbox_id)
    stolen = row(store, outbox_id)
    gate.set()
    assert worker.wait() == 1
    assert row(store, outbox_id) == stolen
    (conflict,) = audit(store, "outbox_flush_conflict")
    assert conflict["outbox_id"] == outbox_id
    assert conflict["worker"] == "loser"
    assert audit(store) == [conflict]


def test_sqlite_and_postgres_take_a_row_beyond_the_enqueue_limit(store, receiver, once):
    """The limit applies to enqueue; rows from a plain INSERT are still delivered."""
    big = "x" * (10 * 1024 * 1024)
    store.insert_many([("notes", big, "0" * 64)])
    once().ok()
    assert by_status(store) == {"sent": 1}
    assert receiver.calls[0].body["payload_md"] == big
