"""A retry-all that cannot send everything reports what it knows, and a later one sends the rest once."""

import json
import signal

from harness.dlq_service import (
    DLQ,
    LONG_LEASES,
    QUICK_RETRIES,
    SUFFIX,
    DeadLetterService,
    Records,
    add_letters,
    count_letters,
    error,
    fresh_name,
    held_up_at,
)
from harness.waiting import wait_for

DEADLINE_SECONDS = 60
FAILED = (500, "SYS_DLQ_INTERNAL_ERROR")


def values(kafka, topic):
    return sorted(message.value() for message in kafka.read_topic(topic))


def test_a_broker_that_stores_and_does_not_answer(programs, postgres, kafka, tmp_path):
    name = kafka.create_topic(fresh_name("silent"))
    first, *_ = add_letters(postgres, name, 301)
    service = DeadLetterService(programs, tmp_path, postgres, kafka, name,
                                dead_letters=QUICK_RETRIES | {"ingest": False})
    assert service.retry(first).json()["status"] == "RESOLVED", "the producer knows the topic"
    kafka.pause()
    try:
        status, code, message = error(service.retry_all(name))
    finally:
        kafka.resume()
    doubtful = count_letters(postgres, "in_doubt AND status = 'RETRYING'")
    assert doubtful > 0 and doubtful + count_letters(postgres, "status = 'PENDING' AND retry_count = 0") == 300
    assert (status, code) == FAILED and f"{doubtful} may have been published" in message, message
    assert "0 messages retried" in message and "got none" not in message, message


def test_a_missing_topic_delays_no_other(programs, postgres, kafka, tmp_path):
    prefix = fresh_name("mixed")
    there, missing, dead = kafka.create_topic(prefix), f"{prefix}-missing", f"{prefix}{SUFFIX}"
    lost, good = add_letters(postgres, missing, 2000), add_letters(postgres, there, 500)
    postgres.query("UPDATE dlq.dlq_messages SET source_topic = ?, source_partition = 0, record_timestamp_ms = 0,"
                   " source_offset = (convert_from(record_value, 'UTF8'))::bigint + CASE original_topic WHEN ? THEN 0"
                   " ELSE 10000 END RETURNING id", dead, missing)
    service = DeadLetterService(programs, tmp_path, postgres, kafka, prefix,
                                dead_letters=LONG_LEASES | {"ingest": False})
    for time in range(4):
        status, code, message = error(service.retry_all(dead))
        assert (status, code) == FAILED and message.startswith(f"{0 if time else 500} messages retried"), message
        assert f"messages for topic {missing} were skipped" in message and "has no topic" in message, message
    assert values(kafka, there) == sorted(good.values()), "each once"
    assert count_letters(postgres, "status = 'PENDING' AND retry_count = 0 AND original_topic = ?", missing) == len(lost)
    kafka.create_topic(missing)

    def all_out():
        service.retry_all(dead)
        return count_letters(postgres, "status = 'RESOLVED'") == 2500

    wait_for(all_out, DEADLINE_SECONDS, "the producer to see the topic")
    assert values(kafka, missing) == sorted(lost.values())


def test_a_command_that_is_interrupted_ends_it(programs, postgres, kafka, tmp_path):
    topic, number = kafka.create_topic(fresh_name("stopped")), 20_000
    letters = add_letters(postgres, topic, number)
    service = DeadLetterService(programs, tmp_path, postgres, kafka, topic, dead_letters=LONG_LEASES | {"ingest": False})
    service.process.terminate()
    assert service.process.wait() == 0
    with held_up_at(postgres, topic, number // 2):  # so that it cannot end before the stop
        command = programs.start("dlq", "retry-all", topic, "--json", "--config", service.config)
        wait_for(lambda: count_letters(postgres, "status = 'RESOLVED'") > 0, DEADLINE_SECONDS, "the first ones")
        command.send(signal.SIGINT)
        command.wait_for_stderr("stopping", DEADLINE_SECONDS)
    assert command.wait(DEADLINE_SECONDS) == 1
    reported = json.loads(command.stdout)
    assert 0 < reported["retried"] < number and reported["retried"] == count_letters(postgres, "status = 'RESOLVED'")
    assert "it was stopped; what is left can be retried" in command.stderr, command.stderr
    assert postgres.query("SELECT finished FROM deliverd.redrives")[0]["finished"], "nobody resumes it"
    again = json.loads(programs.run("dlq", "retry-all", topic, "--json", "--config", service.config,
                                    deadline_seconds=DEADLINE_SECONDS).ok().stdout)
    assert again["retried"] == number - reported["retried"]
    assert values(kafka, topic) == sorted(letters.values()), "each once"


def test_numbers_that_jsonb_would_rewrite_are_refused_as_payload(programs, store, kafka, tmp_path):
    prefix = fresh_name("numbers")
    topic = kafka.create_topic(prefix + SUFFIX)
    service = DeadLetterService(programs, tmp_path, store, kafka, prefix)
    bomb = b"[" + b",".join([b"1e131000"] * 9000) + b"]"
    Records(kafka).produce(topic, [(b"k", bomb, []), (b"k", b'{"n": 1e3}', [])])
    service.wait_for_letters(store, topic, 2, DEADLINE_SECONDS)
    page = service.get(f"{DLQ}/{topic}").json()["messages"]
    assert [letter["payload"] for letter in page if letter["payload"] is not None] == [{"n": 1000}]
    (letter,) = (letter["id"] for letter in page if letter["payload"] is None)
    assert service.raw(letter)[0][1] == bomb and service.letter(letter)["retryable"]
