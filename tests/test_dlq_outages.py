"""Kafka or the database is down: the API says so, nothing is lost, and everything works again afterwards."""

import collections

import pytest
from harness.dlq_service import (
    DLQ,
    QUICK_RETRIES,
    SUFFIX,
    DeadLetterService,
    Records,
    add_letters,
    count_letters,
    digest,
    error,
    fresh_name,
    letters_by_offset,
    stored_records,
)
from harness.waiting import wait_for

DEADLINE_SECONDS = 60
FAILED = (500, "SYS_DLQ_INTERNAL_ERROR")


def retry_until_resolved(service, letter_id):
    """How many tries ended in doubt. Some may: a broker that has just restarted confirms late."""
    doubts = 0

    def resolved():
        nonlocal doubts
        page = service.retry(letter_id)
        if "may have been published" in page.text:
            doubts += 1
        else:
            assert page.status == 200 or "nothing was published" in page.text, page.text
        return page.status == 200

    wait_for(resolved, DEADLINE_SECONDS, lambda: f"a retry to work: {service.process.stderr[-3000:]}")
    return doubts


@pytest.mark.parametrize("was_there_before", [True, False], ids=["lost", "never seen"])
def test_kafka_down(programs, postgres, kafka, tmp_path, was_there_before):
    """A producer that lost its connection and one that never had one fail differently."""
    prefix = fresh_name("down")
    name, dead = kafka.create_topic(prefix), kafka.create_topic(prefix + SUFFIX)
    first, second, *others = letters = list(add_letters(postgres, name, 5).items())

    def start():
        return DeadLetterService(programs, tmp_path, postgres, kafka, prefix, dead_letters=QUICK_RETRIES)

    service = start() if was_there_before else None
    if was_there_before:
        assert service.retry(first[0]).json()["status"] == "RESOLVED"
    kafka.stop()
    try:
        service = service or start()
        before = service.letter(second[0])
        status, code, message = error(service.retry(second[0]))
        assert (status, code) == FAILED and "nothing was published" in message and "can be retried" in message, message
        after = service.letter(second[0])
        changed = {field for field in after if after[field] != before[field]}
        assert changed <= {"updated_at", "last_retry_at", "last_retry_error"}, (before, after)
        assert (after["status"], after["retry_count"], after["retryable"]) == ("PENDING", 0, True)
        status, code, message = error(service.retry_all(name))
        assert (status, code) == FAILED and message.startswith("0 messages retried"), message
        assert count_letters(postgres, "status = 'PENDING' AND retry_count = 0") == 5 - was_there_before
        page = service.get(f"{DLQ}/{name}").json()
        assert page["pagination"]["total_count"] == 5 and service.get("/readyz").status == 200
        assert service.post(f"/messages/{others[0][0]}/dead").json()["status"] == "DEAD", "what needs no Kafka works"
    finally:
        kafka.start()

    doubts = retry_until_resolved(service, second[0])  # while it was looking for its broker nothing was counted
    assert service.letter(second[0])["retry_count"] == 1 + doubts
    rest = 3 if not was_there_before else 2
    assert service.retry_all(name).json()["retried"] == rest
    out = collections.Counter(message.value() for message in kafka.read_topic(name))
    assert 1 <= out.pop(second[1]) <= 1 + doubts
    assert out == {value: 1 for letter, value in letters if letter not in (second[0], others[0][0])}, "each once"

    records = Records(kafka)
    records.produce(dead, [(b"k", b"v", [])])
    service.wait_for_letters(postgres, dead, 1, DEADLINE_SECONDS)


def test_kafka_that_stores_and_does_not_answer(programs, postgres, kafka, tmp_path):
    """Whether the record was published is unknown. The answer and the letter say so, and a retry is still possible."""
    name = kafka.create_topic(fresh_name("silent"))
    first, second = add_letters(postgres, name, 2).items()
    service = DeadLetterService(programs, tmp_path, postgres, kafka, name, dead_letters=QUICK_RETRIES)
    assert service.retry(first[0]).json()["status"] == "RESOLVED"
    kafka.pause()
    try:
        status, code, message = error(service.retry(second[0]))
        assert (status, code) == FAILED and "may have been published" in message, message
        shown = service.letter(second[0])
        assert (shown["status"], shown["retry_count"]) == ("RETRYING", 1) and shown["in_doubt"] and shown["retryable"]
    finally:
        kafka.resume()

    doubts = 1 + retry_until_resolved(service, second[0])
    shown = service.letter(second[0])
    assert (shown["status"], shown["retry_count"], shown["in_doubt"]) == ("RESOLVED", 1 + doubts, False)
    actions = postgres.query("SELECT action FROM dlq.dlq_audit WHERE message_id = ? ORDER BY id", second[0])
    assert [row["action"] for row in actions if row["action"] != "retry_failed"][:2] == ["retry_begun", "retry_in_doubt"]
    values = [message.value() for message in kafka.read_topic(name)]
    assert values.count(first[1]) == 1 and 1 <= values.count(second[1]) <= 1 + doubts


def test_database_down(programs, restartable, kafka, tmp_path):
    prefix = fresh_name("nodb")
    topic = kafka.create_topic(prefix + SUFFIX, 3)
    kafka.create_topic(prefix)
    records = Records(kafka)
    records.produce(topic, [(b"k", b"before %d" % n, []) for n in range(100)])
    service = DeadLetterService(programs, tmp_path, restartable, kafka, prefix, dead_letters=QUICK_RETRIES)
    service.wait_for_letters(restartable, topic, 100, DEADLINE_SECONDS)
    letter_id = letters_by_offset(restartable, topic)[0]

    restartable.server.kill9()
    try:
        wait_for(lambda: service.get("/readyz").status == 503, DEADLINE_SECONDS, "/readyz to notice")
        records.produce(topic, [(b"k-%d" % (n % 7), b"meanwhile %d" % n, [("n", b"%d" % n)]) for n in range(2000)])
        wait_for(lambda: service.metrics().get("dlq_ingest_paused") == 1, DEADLINE_SECONDS, "the ingest to pause")
        for page in (service.get(DLQ), service.get(f"{DLQ}/{topic}"), service.get(f"{DLQ}/messages/{letter_id}"),
                     service.post(f"/messages/{letter_id}/dead"), service.retry_all(topic)):
            assert error(page)[:2] == (503, "SYS_DLQ_INTERNAL_ERROR"), page.text
            assert int(page.headers["Retry-After"]) >= 0
        status, code, message = error(service.retry(letter_id))
        assert (status, code) == (503, "SYS_DLQ_INTERNAL_ERROR") and "nothing was published" in message, message
        assert service.get("/healthz").status == 200 and service.process.alive()
    finally:
        restartable.server.start()
    wait_for(lambda: service.get("/readyz").status == 200, DEADLINE_SECONDS, "/readyz to recover")
    service.wait_for_letters(restartable, topic, len(records.sent), DEADLINE_SECONDS)
    found = stored_records(restartable, topic)
    assert len(found) == 2100 and digest(found) == digest(records.sent)
    wait_for(lambda: service.metrics()["dlq_ingest_paused"] == 0, DEADLINE_SECONDS, "the ingest to resume")
    assert service.letter(letter_id)["retry_count"] == 0
    doubts = retry_until_resolved(service, letter_id)
    assert 1 <= len(kafka.read_topic(prefix)) <= 1 + doubts
