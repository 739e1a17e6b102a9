"""Retries whose process is killed: each message is published. It is published twice only if the result of the first send
is unknown, and such a repeat is counted."""

import collections
import concurrent.futures
import json
import signal

import pytest
from harness.dlq_service import (
    LONG_LEASES,
    DeadLetterService,
    add_letters,
    count_letters,
    end_leases,
    error,
    fresh_name,
    held_up_at,
)
from harness.waiting import wait_for

LETTERS = 5000  # more than two passages can publish: 24 pages each
MANY_LETTERS = 20_000  # half of them are enough for a stop before the end
PAGE = 100  # of a retry-all
DEADLINE_SECONDS = 100
ONLY_RETRIES = LONG_LEASES | {"ingest": False}
NOTED = "an earlier retry did not end: it may have been published"


@pytest.fixture
def start(programs, postgres, kafka, tmp_path):
    prefix = fresh_name("redrive")
    return lambda **how: DeadLetterService(programs, tmp_path, postgres, kafka, prefix, dead_letters=ONLY_RETRIES,
                                           **how)


def retry_all_from_the_shell(programs, service, topic):
    """Unlike `serve`, a command resumes nothing on its own."""
    return programs.run("dlq", "retry-all", topic, "--json", "--config", service.config, deadline_seconds=DEADLINE_SECONDS)


def redrive(store, topic):
    return store.query("SELECT * FROM deliverd.redrives WHERE topic = ?", topic)[0]


def values(kafka, topic):
    return collections.Counter(message.value() for message in kafka.read_topic(topic))


def ids(store, where):
    return {str(row["id"]) for row in store.query(f"SELECT id FROM dlq.dlq_messages WHERE {where}")}


def trail(store, letter_id):
    """(action, detail) of a letter, oldest first."""
    rows = store.query("SELECT action, detail FROM dlq.dlq_audit WHERE message_id = ? ORDER BY id", letter_id)
    return [(row["action"], row["detail"]) for row in rows]


@pytest.mark.parametrize("passage", [1, 2])
@pytest.mark.parametrize("how", ["by itself", "asked again"])
def test_retry_all_killed_half_way(start, programs, postgres, kafka, how, passage):
    topic = kafka.create_topic(fresh_name("orders"), 2)
    letters = add_letters(postgres, topic, LETTERS)
    victim = start(failpoints=f"redrive.after_publish=crash@{passage}")
    assert victim.retry_all(topic).status == 0, "nobody is there to answer"
    assert victim.process.wait() == -signal.SIGKILL

    before = values(kafka, topic)
    begun = ids(postgres, "retry_owner IS NOT NULL")
    resolved = ids(postgres, "status = 'RESOLVED'")
    out_and_unrecorded = {letter for letter in begun if letters[letter] in before}
    assert passage * PAGE <= sum(before.values()) < LETTERS, "it died half-way"
    assert set(before.values()) == {1} and out_and_unrecorded, "between publish and record"
    assert {letters[letter] for letter in resolved | out_and_unrecorded} == set(before)
    assert redrive(postgres, topic)["published"] == len(resolved)

    tried = set()  # set by hand, to see that the redrive does not try it again when it starts over
    if how == "by itself":
        end_leases(postgres)
        tried = {*[*resolved][:1]}
        for letter in tried:
            postgres.query("UPDATE dlq.dlq_messages SET status = 'RETRYING' WHERE id = ? RETURNING id", letter)
        start()
        wait_for(lambda: redrive(postgres, topic)["finished"], DEADLINE_SECONDS, lambda: redrive(postgres, topic))
        reported = redrive(postgres, topic)
    else:
        service = start()
        refusal = error(service.retry_all(topic))
        assert refusal == (409, "SYS_DLQ_CONFLICT", f"a retry of all messages in topic {topic} is already under way")
        service.process.terminate()
        assert service.process.wait() == 0
        refused = retry_all_from_the_shell(programs, service, topic)
        assert refused.status == 1 and "already under way" in refused.stderr.splitlines()[-1], refused
        assert values(kafka, topic) == before, "nobody else publishes while the dead process has the lease"
        end_leases(postgres)
        reported = json.loads(retry_all_from_the_shell(programs, service, topic).ok().stdout)
        assert reported["retried"] == LETTERS, reported
        again = json.loads(retry_all_from_the_shell(programs, service, topic).ok().stdout)
        assert again["retried"] == 0, "and that was all"
    after = values(kafka, topic)
    assert after.keys() == set(letters.values()), "every one is out"
    twice = {value for value, count in after.items() if count > 1}
    assert twice == {letters[letter] for letter in out_and_unrecorded}
    assert sum(after.values()) == LETTERS + len(out_and_unrecorded)
    assert (reported["taken_over"], reported["failed"], reported["in_doubt"]) == (len(begun), 0, 0)
    assert ids(postgres, "status <> 'RESOLVED'") == tried, "it did not repeat what it had tried"
    assert count_letters(postgres, "status = 'RESOLVED' AND retry_count = 1 AND NOT in_doubt") == LETTERS - len(tried)
    noted = postgres.query("SELECT message_id FROM dlq.dlq_audit WHERE action = 'retry_begun' AND detail = ?", NOTED)
    assert sorted(str(row["message_id"]) for row in noted) == sorted(begun), "the audit says which may have been published twice"
    doubtful = next(iter(out_and_unrecorded))
    assert [line for line in trail(postgres, doubtful) if line[0] == "retry_begun"] \
        == [("retry_begun", NOTED)]
    others = {tuple(action for action, _ in trail(postgres, letter)) for letter in [*resolved][:PAGE]}
    assert others <= {("published",)}, "the rest was published once"


def test_retry_all_stopped_half_way(start, programs, postgres, kafka):
    """SIGTERM, not a crash: what is in flight is recorded, and nothing is published twice."""
    topic = kafka.create_topic(fresh_name("orders"), 2)
    letters = add_letters(postgres, topic, MANY_LETTERS)
    service = start()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with held_up_at(postgres, topic, MANY_LETTERS // 2):  # so that it cannot end before the stop
            asked = pool.submit(service.retry_all, topic)
            wait_for(lambda: count_letters(postgres, "status = 'RESOLVED'") > 0, DEADLINE_SECONDS, "the first ones")
            service.process.terminate()
            service.process.wait_for_stderr("stopping", DEADLINE_SECONDS)
        answer = asked.result(DEADLINE_SECONDS)
    assert service.process.wait() == 0
    done = count_letters(postgres, "status = 'RESOLVED'")
    assert 0 < done < MANY_LETTERS, "it was stopped half-way"
    assert answer.status == 500 and f"{done} messages retried" in answer.text and "the rest follows" in answer.text
    assert ids(postgres, "retry_owner IS NOT NULL") == set(), "nothing was left begun"
    assert values(kafka, topic).total() == done, "what was published is recorded"

    end_leases(postgres)
    reported = json.loads(retry_all_from_the_shell(programs, service, topic).ok().stdout)
    assert (reported["retried"], reported["taken_over"], reported["failed"], reported["in_doubt"]) == (MANY_LETTERS, 0, 0, 0)
    assert values(kafka, topic) == collections.Counter(letters.values()), "each once"


@pytest.mark.parametrize("point,published", [("retry.after_begin", 0), ("retry.after_publish", 1)])
def test_one_retry_killed(start, postgres, kafka, point, published):
    topic = kafka.create_topic(fresh_name("orders"))
    ((letter_id, value),) = add_letters(postgres, topic, 1).items()
    victim = start(failpoints=f"{point}=crash@1")
    assert victim.retry(letter_id).status == 0
    assert victim.process.wait() == -signal.SIGKILL
    assert values(kafka, topic)[value] == published

    service = start()
    shown = service.letter(letter_id)
    assert (shown["status"], shown["retry_count"]) == ("RETRYING", 1), "a begun retry was on the disk"
    assert error(service.retry(letter_id)) == (409, "SYS_DLQ_CONFLICT", "another retry of this message is under way")
    assert values(kafka, topic)[value] == published
    end_leases(postgres)
    answer = service.retry(letter_id)
    assert (answer.status, answer.json()["status"]) == (200, "RESOLVED")
    assert values(kafka, topic)[value] == published + 1
    assert service.letter(letter_id)["retry_count"] == 1, "the same retry, resumed"
    begun, again, (action, where) = trail(postgres, letter_id)
    assert (begun, again, action) == (("retry_begun", None), ("retry_begun", NOTED), "published")
    assert where == f"{topic}[0]@{published}"
