"""A round trip keeps every byte: the original topic's consumer gets what was dead-lettered, without the failure
headers and with the replay count."""

import re
import uuid

from harness.dead_letters import told_headers
from harness.dlq_service import REPLAYS, SUFFIX, DeadLetterService, Records, fresh_name, letters_by_offset
from harness.waiting import wait_for
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES, MOST_RECORDS = 30, 40
DEADLINE_SECONDS = 40

# All headers that the documentation names, by family and meaning. Those that name the origin have values here that
# are not valid topics, so they are ignored. SmallRye's unreadable bytes would become the value again.
HEADERS = {place: [re.match("`([^`]+)`", name)[1] for name in names] for place, names in told_headers().items()}
ORIGINS = [name for (_, meaning), names in HEADERS.items() for name in names if meaning == "original topic"]
FAILURE_HEADERS = [name for names in HEADERS.values() for name in names
                   if name not in (*ORIGINS, "deserialization-failure-data")]
REPORTS, NO_COPIES = ([name for (family, _), names in HEADERS.items() for name in names if family == wanted]
                      for wanted in ("confluent-reporter", "kafka-share-group"))
NO_TOPIC = [None, b"", b"no topic!", b"<b>", b"..", b"a/b", b"\xff\xfe", b"x" * 250]
COUNTS = [None, b"", b"0", b"1", b"41", b"x", b"-3", b" 7", b"\xff", b"999999998", b"9" * 30]

some_bytes = st.none() | st.just(b"") | st.binary(max_size=40)
texts = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=12)
json_values = st.sampled_from([b"{}", b"null", b'{"a": 1.50, "a": 2}', b'"\\u0000"', b'"\\ud800"', b"[1e400]", b"01",
                               b'{"k":"\xc3\xa4"}', b" [ ] ", b"\x00", b"\xef\xbb\xbf{}", b"[" * 200 + b"]" * 200])
plain_headers = st.tuples(texts | st.sampled_from(["trace", "Error", "ERROR", "deliverd-replay"]), some_bytes)
headers = st.lists(plain_headers | st.tuples(st.sampled_from(FAILURE_HEADERS), some_bytes)
                   | st.tuples(st.sampled_from(ORIGINS), st.sampled_from(NO_TOPIC))
                   | st.tuples(st.just(REPLAYS), st.sampled_from(COUNTS)), max_size=8)
records_of_all_kinds = st.lists(st.tuples(some_bytes, some_bytes | json_values, headers), min_size=1,
                                max_size=MOST_RECORDS)


def replays(found):
    """The record's replay counter: the last header of that name counts."""
    said = [value for name, value in found if name == REPLAYS]
    number = int(said[-1]) if said and said[-1] and re.fullmatch(rb"[0-9]+", said[-1]) else 0
    return 0 if number >= 2**63 else number


def expected_headers(found):
    gone = {REPLAYS, *FAILURE_HEADERS, *ORIGINS}
    return [header for header in found if header[0] not in gone] + [(REPLAYS, str(replays(found) + 1).encode())]


def is_refused(record):
    """Whether the header describes the failure rather than belonging to the message."""
    key, value, found = record
    names = {name for name, _ in found}
    return bool(names & set(REPORTS)) or key is value is None and bool(names & set(NO_COPIES))


def check_back(record, message):
    key, value, found = record
    if key is None and value is not None:
        assert str(uuid.UUID(message.key().decode())) == message.key().decode(), "a fresh key where there was none"
    else:
        assert message.key() == key
    assert message.value() == value
    assert message.headers() == expected_headers(found)


def published_at(store, topic):
    """Letter → offset in the topic, from the audit trail."""
    rows = store.query("SELECT message_id, detail FROM dlq.dlq_audit WHERE action = 'published'")
    return {str(row["message_id"]): int(re.fullmatch(rf"{re.escape(topic)}\[0\]@(\d+)", row["detail"])[1])
            for row in rows}


def test_round_trip(programs, postgres, kafka, tmp_path):
    name = fresh_name("round")
    kafka.create_topic(name)
    dead = kafka.create_topic(name + SUFFIX)
    records = Records(kafka)
    service = DeadLetterService(programs, tmp_path, postgres, kafka, name)

    @settings(max_examples=EXAMPLES, deadline=None, database=None, print_blob=True,
              suppress_health_check=list(HealthCheck))
    @given(records_of_all_kinds)
    def there_and_back(some):
        first = len(records.sent)
        records.produce(dead, some)
        service.wait_for_letters(postgres, dead, len(records.sent), DEADLINE_SECONDS)
        letters = letters_by_offset(postgres, dead)
        mine = {letters[first + number]: record for number, record in enumerate(some)}
        assert len(mine) == len(some) and sorted(letters) == list(range(len(records.sent)))
        for letter_id, record in mine.items():
            assert service.raw(letter_id) == (record, False)
        answer = service.retry_all(dead)
        sent_back = {letter_id: record for letter_id, record in mine.items() if not is_refused(record)}
        assert (answer.status, answer.json()["retried"]) == (200, len(sent_back)), answer.text
        back = {message.offset(): message for message in kafka.read_topic(name)}
        offsets = published_at(postgres, name)
        refused = sum(map(is_refused, records.sent.values()))
        assert len(back) == len(set(offsets.values())) == len(records.sent) - refused
        for letter_id, record in sent_back.items():
            check_back(record, back[offsets[letter_id]])

    there_and_back()


def test_a_record_that_comes_back_again_and_again_is_counted(programs, postgres, kafka, tmp_path):
    """The consumer fails each time and writes its family's headers again."""
    name = fresh_name("again")
    kafka.create_topic(name)
    dead = kafka.create_topic(name + SUFFIX)
    records = Records(kafka)
    service = DeadLetterService(programs, tmp_path, postgres, kafka, name)
    record = (b"k", b"\x00\xff", [("trace", None), ("trace", b"")])
    for times in (1, 2, 3):
        key, value, found = record
        records.produce(dead, [(key, value, [*found, ("original_topic", name.encode()), ("error", b"again")])])
        service.wait_for_letters(postgres, dead, times, DEADLINE_SECONDS)
        answer = service.retry(letters_by_offset(postgres, dead)[times - 1])
        assert answer.json()["status"] == "RESOLVED", answer.text
        message = kafka.read_topic(name)[-1]
        record = (message.key(), message.value(), message.headers())
        assert record == (b"k", b"\x00\xff", [("trace", None), ("trace", b""), (REPLAYS, str(times).encode())])
    wait_for(lambda: len(kafka.read_topic(name)) == 3, DEADLINE_SECONDS, "three replays")
