"""Dead letters with a broker that requires SASL and TLS, for reading and for sending back."""

import pytest
from harness.dlq_service import (
    SUFFIX,
    DeadLetterService,
    Records,
    add_letters,
    error,
    fresh_name,
    letters_by_offset,
    stored_records,
)
from harness.kafka import PASSWORD, USER, KafkaServer, available_or_skip
from harness.waiting import wait_for

DEADLINE_SECONDS = 40
WRONG = "Wr0ngPassw0rd"
ROTATED = "r0tated-secret"


def sasl(kafka, folder, password):
    """The password in a file, as Vault's agent writes it."""
    (folder / "kafka-password").write_text(password + "\n")
    return {"brokers": [kafka.sasl_brokers], "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
            "sasl_username": USER, "sasl_password_file": str(folder / "kafka-password")}


def tls(kafka, folder):
    return {"brokers": [kafka.ssl_brokers], "security_protocol": "SSL", "ssl_ca_file": str(kafka.ca_file)}


def both(kafka, folder):
    return sasl(kafka, folder, PASSWORD) | tls(kafka, folder) | {"brokers": [kafka.sasl_ssl_brokers],
                                                                 "security_protocol": "SASL_SSL"}


DOORS = {"SASL": lambda kafka, folder: sasl(kafka, folder, PASSWORD), "TLS": tls, "SASL_SSL": both}
LOCKED = {"SASL": (lambda kafka, folder: sasl(kafka, folder, WRONG), "uthentication"),
          "TLS": (lambda kafka, folder: tls(kafka, folder) | {"ssl_ca_file": "/etc/ssl/certs/ca-certificates.crt"},
                  "ertificate")}


@pytest.mark.parametrize("door", DOORS)
def test_there_and_back(programs, store, kafka, tmp_path, door):
    name = fresh_name("doors")
    kafka.create_topic(name)
    dead = kafka.create_topic(name + SUFFIX)
    records = Records(kafka)
    records.produce(dead, [(b"k-1", b"\x00\xff", [("trace", b"t")]), (b"k-2", b"2", [])])
    service = DeadLetterService(programs, tmp_path, store, kafka, name, kafka_settings=DOORS[door](kafka, tmp_path))
    service.wait_for_letters(store, dead, 2, DEADLINE_SECONDS)
    letters = letters_by_offset(store, dead)
    assert service.raw(letters[0]) == ((b"k-1", b"\x00\xff", [("trace", b"t")]), False)
    assert service.retry(letters[0]).json()["status"] == "RESOLVED"
    assert programs.run("dlq", "retry-all", dead, "--config", service.config).ok().stdout == "1\n"
    assert [(message.key(), message.value()) for message in kafka.read_topic(name)] == [(b"k-1", b"\x00\xff"), (b"k-2", b"2")]
    assert "kafka" in programs.run("doctor", "--config", service.config).stdout.lower()
    assert PASSWORD not in programs.run("config", "show", "--config", service.config).ok().stdout
    assert PASSWORD not in service.process.stderr + service.process.stdout


def test_a_rotated_password_needs_no_restart(programs, postgres, tmp_path):
    """The password changes at the broker, then in its file by a rename, as Vault's agent does. Then every connection breaks."""
    available_or_skip()
    with KafkaServer() as kafka:
        name = fresh_name("rotated")
        kafka.create_topic(name)
        dead = kafka.create_topic(name + SUFFIX)
        records = Records(kafka)
        records.produce(dead, [(b"k", b"%d" % number, []) for number in range(3)])
        settings = sasl(kafka, tmp_path, PASSWORD)
        service = DeadLetterService(programs, tmp_path, postgres, kafka, name, kafka_settings=settings)
        service.wait_for_letters(postgres, dead, 3, DEADLINE_SECONDS)
        assert service.retry(letters_by_offset(postgres, dead)[0]).json()["status"] == "RESOLVED"

        kafka.set_password(ROTATED)
        (tmp_path / "next").write_text(ROTATED + "\n")
        (tmp_path / "next").rename(settings["sasl_password_file"])
        kafka.restart()
        records.produce(dead, [(b"k", b"%d" % number, []) for number in range(3, 5)])
        service.wait_for_letters(postgres, dead, 5, DEADLINE_SECONDS)
        letters = letters_by_offset(postgres, dead)
        wait_for(lambda: service.retry(letters[1]).json().get("status") == "RESOLVED", DEADLINE_SECONDS,
                 lambda: service.process.stderr[-3000:])
        assert service.retry_all(dead).json()["retried"] == 3
        assert sorted(message.value() for message in kafka.read_topic(name)) == [b"0", b"1", b"2", b"3", b"4"]
        assert stored_records(postgres, dead) == records.sent
        for secret in (PASSWORD, ROTATED):
            assert secret not in service.process.stderr + service.process.stdout


@pytest.mark.parametrize("door", LOCKED)
def test_a_refused_login_is_reported_and_nothing_is_lost(programs, postgres, kafka, tmp_path, door):
    name = fresh_name("locked")
    kafka.create_topic(name)
    dead = kafka.create_topic(name + SUFFIX)
    ((letter_id, value),) = add_letters(postgres, name, 1).items()
    Records(kafka).produce(dead, [(b"k", b"v", [])])
    settings, complaint = LOCKED[door]
    service = DeadLetterService(programs, tmp_path, postgres, kafka, name, kafka_settings=settings(kafka, tmp_path),
                                dead_letters={"replay_timeout_seconds": 2})
    status, code, message = error(service.retry(letter_id))
    assert (status, code) == (500, "SYS_DLQ_INTERNAL_ERROR") and "nothing was published" in message, message
    wait_for(lambda: complaint in service.process.stderr, DEADLINE_SECONDS, lambda: service.process.stderr[-3000:])
    shown = service.letter(letter_id)
    assert (shown["status"], shown["retry_count"], shown["retryable"]) == ("PENDING", 0, True)
    assert letters_by_offset(postgres, dead) == {} and service.get("/readyz").status == 200
    reported = programs.run("doctor", "--config", service.config)
    assert reported.status == 1 and complaint in reported.stdout + reported.stderr, reported
    for text in (service.process.stderr, reported.stdout, reported.stderr, message):
        assert WRONG not in text

    service.process.terminate()
    assert service.process.wait() == 0
    service = DeadLetterService(programs, tmp_path, postgres, kafka, name, kafka_settings=DOORS[door](kafka, tmp_path))
    service.wait_for_letters(postgres, dead, 1, DEADLINE_SECONDS)
    assert service.retry(letter_id).json()["status"] == "RESOLVED"
    assert [message.value() for message in kafka.read_topic(name)] == [value]
