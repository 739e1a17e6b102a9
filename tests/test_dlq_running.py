"""Dead letters in a running service: simultaneous retries, new topics, large records."""

import concurrent.futures
import datetime
import random
import threading

import pytest
from harness.dead_letters import add_letter, table
from harness.dlq_service import SUFFIX, DeadLetterService, Records, add_letters, error, fresh_name, letters_by_offset
from harness.ports import free_port
from harness.service import Service
from harness.stores import write_config
from harness.waiting import wait_for

AT_ONCE = 20
DEADLINE_SECONDS = 40
KEPT_BYTES = 950_000


def test_twenty_retries_of_one_message_publish_once(programs, postgres, kafka, tmp_path):
    topic = kafka.create_topic(fresh_name("orders"))
    ((letter_id, value),) = add_letters(postgres, topic, 1).items()
    services = [DeadLetterService(programs, tmp_path, postgres, kafka, topic) for _ in range(2)]
    together = threading.Barrier(AT_ONCE)

    def ask(number):
        together.wait(DEADLINE_SECONDS)
        return services[number % 2].retry(letter_id)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        pages = list(pool.map(ask, range(AT_ONCE)))
    done = [page for page in pages if page.status == 200]
    assert [page.json() for page in done] == [
        {"id": letter_id, "status": "RESOLVED", "message": "message retry initiated"}], [page.text for page in pages]
    refused = {error(page) for page in pages if page.status != 200}
    assert refused <= {(409, "SYS_DLQ_CONFLICT", "another retry of this message is under way"),
                       (409, "SYS_DLQ_CONFLICT", "message is not retryable: status=RESOLVED, retry_count=1/3")}
    assert [message.value() for message in kafka.read_topic(topic)] == [value]
    shown = services[0].letter(letter_id)
    assert (shown["status"], shown["retry_count"]) == ("RESOLVED", 1)
    begun = postgres.query("SELECT action FROM dlq.dlq_audit WHERE message_id = ? ORDER BY id", letter_id)
    assert [row["action"] for row in begun] == ["retry_begun", "published"]


def test_a_new_topic_is_found(programs, postgres, kafka, tmp_path):
    """How soon depends on a client setting, which unit tests check."""
    prefix = fresh_name("new")
    records = Records(kafka)
    first = kafka.create_topic(f"{prefix}-1{SUFFIX}")
    service = DeadLetterService(programs, tmp_path, postgres, kafka, prefix)
    records.produce(first, [(None, b"1", [])])
    service.wait_for_letters(postgres, first, 1, DEADLINE_SECONDS)
    second = kafka.create_topic(f"{prefix}-2{SUFFIX}", 3)
    records.produce(second, [(None, b"2", [])])
    service.wait_for_letters(postgres, second, 1, DEADLINE_SECONDS)


def test_large_records(programs, postgres, kafka, tmp_path):
    name = fresh_name("large")
    kafka.create_topic(name)
    dead = kafka.create_topic(name + SUFFIX)
    whole = bytes(range(256)) * 3516  # 900 kB
    text = b'{"t": "' + b"x" * 900_000 + b'"}'
    longer = bytes(range(256)) * 4000
    records = Records(kafka)
    records.produce(dead, [(b"whole", whole, []), (b"text", text, []), (b"longer", longer, [("trace", b"1")])])
    service = DeadLetterService(programs, tmp_path, postgres, kafka, name,
                                kafka_settings={"max_value_bytes": KEPT_BYTES})
    service.wait_for_letters(postgres, dead, 3, DEADLINE_SECONDS)
    letters = letters_by_offset(postgres, dead)

    assert service.raw(letters[0]) == ((b"whole", whole, []), False)
    assert service.raw(letters[1]) == ((b"text", text, []), False)
    assert service.letter(letters[1])["payload"] == {"t": "x" * 900_000}
    assert service.raw(letters[2]) == ((b"longer", longer[:KEPT_BYTES], [("trace", b"1")]), True)
    shown = service.letter(letters[2])
    assert shown["truncated"] and not shown["retryable"] and shown["payload"] is None
    status, code, message = error(service.retry(letters[2]))
    assert (status, code) == (409, "SYS_DLQ_CONFLICT") and f"only the first {KEPT_BYTES} bytes" in message
    assert service.retry(letters[0]).json()["status"] == "RESOLVED"
    assert service.retry_all(dead).json()["retried"] == 1
    assert {message.key(): message.value() for message in kafka.read_topic(name)} == {b"whole": whole, b"text": text}
    shown = service.letter(letters[2])
    assert (shown["status"], shown["retry_count"]) == ("PENDING", 0), "refused, not failed"
    assert service.metrics()["dlq_truncated_total"] == 1


def test_retry_all_sends_the_oldest_first(programs, store, kafka, tmp_path):
    """Across pages too, in the order in which they were stored, whatever their ids."""
    topic = kafka.create_topic(fresh_name("order"))
    numbers = list(range(250))
    random.Random(6).shuffle(numbers)
    for number in numbers:
        seconds = f"{number // 60:02}:{number % 60:02}"
        add_letter(store, topic, payload=str(number), created_at=f"2026-02-20T10:{seconds}.000Z")
    service = DeadLetterService(programs, tmp_path, store, kafka, topic)
    assert service.retry_all(topic).json()["retried"] == len(numbers)
    assert [int(message.value()) for message in kafka.read_topic(topic)] == sorted(numbers)


def test_the_last_failed_retry_makes_it_dead(programs, store, kafka, tmp_path):
    """The broker refuses it each time, so it was certainly not published, and each try counts."""
    topic = kafka.create_topic(fresh_name("small"), settings={"max.message.bytes": "2000"})
    letter_id = add_letter(store, topic, payload='"' + random.Random(6).randbytes(4000).hex() + '"')
    service = DeadLetterService(programs, tmp_path, store, kafka, topic)
    for count, status, words in ((1, "RETRYING", "it can be retried"), (2, "RETRYING", "it can be retried"),
                                 (3, "DEAD", "that was its last retry, it is DEAD now")):
        answer = error(service.retry(letter_id))
        assert answer[:2] == (500, "SYS_DLQ_INTERNAL_ERROR") and "not published: " in answer[2] and words in answer[2], answer
        shown = service.letter(letter_id)
        assert (shown["status"], shown["retry_count"], shown["in_doubt"]) == (status, count, False)
        assert shown["last_retry_error"] and shown["last_retry_at"] and shown["retryable"] == (status == "RETRYING")
    assert error(service.retry(letter_id)) \
        == (409, "SYS_DLQ_CONFLICT", "message is not retryable: status=DEAD, retry_count=3/3")
    assert kafka.read_topic(topic) == []


@pytest.mark.parametrize("kept, gone", [
    ({}, ["RESOLVED"]), ({"keep_resolved": "never", "keep_dead": "20d"}, ["DEAD"]),
    ({"keep_resolved": "50d", "keep_dead": "50d", "keep_pending": "20d"}, ["PENDING", "RETRYING"])],
    ids=["as delivered", "dead", "open"])
def test_old_letters_are_deleted(programs, store, tmp_path, kept, gone):
    """By status and age of the last change, in batches."""
    now = datetime.datetime.now(datetime.UTC)
    states = {}
    for status in ("PENDING", "RETRYING", "RESOLVED", "DEAD"):
        for days in (0, 10, 40, 40):
            changed = (now - datetime.timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            letter_id = add_letter(store, status=status, created_at="2020-01-01T00:00:00.000Z", updated_at=changed)
            states[letter_id] = (status, days)
    port = free_port()
    config = write_config(tmp_path, store, server={"port": port}, dead_letters=kept,
                          upkeep={"dead_letters_purge_seconds": 1, "batch_size": 1})
    service = Service(programs, config, port)

    def left():
        return sorted(states[str(row["id"])] for row in store.query(f"SELECT id FROM {table(store)}"))

    wanted = sorted(state for state in states.values() if state not in [(status, 40) for status in gone])
    for status in (None, *gone):
        if status:  # one more round deletes nothing else
            old = "2020-01-01T00:00:00.000Z"
            states[add_letter(store, status=status, created_at=old, updated_at=old)] = (status, 2000)
        wait_for(lambda: left() == wanted, DEADLINE_SECONDS, lambda: f"{left()}: {service.process.stderr[-2000:]}")
