"""A Kafka broker for the tests: one KRaft node, temporary folder, free ports, ready in a few seconds.

Five listeners: PLAINTEXT (`brokers`), SASL without TLS (`sasl_brokers`), TLS (`ssl_brokers`, its authority in `ca_file`),
both (`sasl_ssl_brokers`) and the controller's own. SASL is PLAIN, with USER and PASSWORD: a librdkafka before 2.6.1, with
which deliverd may be linked, cannot use SCRAM with Kafka 4. `./dev` fetches the jars once from Maven Central
(tools/kafka). If that fails, KafkaUnavailable says so and the tests that need a broker are skipped by name.

    python -m harness.kafka [NAME=VALUE…]

starts one and prints what with_servers would export, one `NAME=VALUE` per line, then `ready`. It reads the commands
`kill9`, `stop`, `start`, `pause`, `resume` and `set_password PASSWORD` from standard input and answers each with `ready`.
It ends when its input ends.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.ports import free_port
from harness.server_process import PausableServer
from harness.waiting import wait_for

START_DEADLINE_SECONDS = 60
ANSWER_SECONDS = 120
READ_DEADLINE_SECONDS = 60
TESTS = Path(__file__).resolve().parent.parent
USER, PASSWORD = "deliverd", "kafka-secret"  # of the listeners with SASL
CLUSTER_ID = "ZGVsaXZlcmQtdGVzdC0wMQ"
JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

# Small, because it shares the machine. Sessions are short so that a killed and restarted broker is not mistaken
# for its own duplicate for long.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SSL:SSL,SASLSSL:SASL_SSL,"
                                      "CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "auto.create.topics.enable": "false",
    "sasl.enabled.mechanisms": "PLAIN",
    "ssl.keystore.type": "PEM",
}


class KafkaUnavailable(RuntimeError):
    """The jars are missing, and fetching them failed."""


def jars_folder():
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deliverd" / "kafka-4.1.0"
    return Path(os.environ.get("DELIVERD_KAFKA_JARS") or default)


def check_available():
    if not (jars_folder() / "complete").exists():
        raise KafkaUnavailable("no Kafka broker: its jars are not here and Maven Central could not be reached "
                               "(./dev test fetches them)")
    if shutil.which("java") is None:
        raise RuntimeError("java was not found: ./dev setup test installs it")


def available_or_skip():
    """For fixtures: skips a test that needs a broker, with the reason, if no broker is available."""
    try:
        check_available()
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))


class KafkaServer(PausableServer):
    name = "Kafka"
    start_deadline_seconds = START_DEADLINE_SECONDS

    def __init__(self, settings=None, parent_folder=None):
        check_available()
        super().__init__("deliverd-kafka-", parent_folder)
        self.port, self.sasl_port, self.ssl_port, self.sasl_ssl_port, controller = (free_port() for _ in range(5))
        with self._setting_up():
            listeners = (f"PLAINTEXT://127.0.0.1:{self.port},SASL://127.0.0.1:{self.sasl_port},"
                         f"SSL://127.0.0.1:{self.ssl_port},SASLSSL://127.0.0.1:{self.sasl_ssl_port}")
            own = {
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": listeners,
                "log.dirs": str(self.folder / "data"),
                "ssl.keystore.location": self._make_certificate(),
            }
            self._settings = SETTINGS | own | (settings or {})
            self.set_password(PASSWORD)
            self._format()

    def set_password(self, password):
        """Sets USER's password for the SASL listeners, from the next start."""
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{password}";'
        logins = {f"listener.name.{name}.plain.sasl.jaas.config": login for name in ("sasl", "saslssl")}
        with open(self._properties, "w", encoding="utf-8") as file:
            for name, value in (self._settings | logins).items():
                file.write(f"{name}={value}\n")

    @property
    def brokers(self):
        return f"127.0.0.1:{self.port}"

    @property
    def sasl_brokers(self):
        return f"127.0.0.1:{self.sasl_port}"

    @property
    def ssl_brokers(self):
        return f"127.0.0.1:{self.ssl_port}"

    @property
    def sasl_ssl_brokers(self):
        return f"127.0.0.1:{self.sasl_ssl_port}"

    @property
    def ca_file(self):
        return self.folder / "ca.pem"

    @property
    def _properties(self):
        return self.folder / "server.properties"

    def _make_certificate(self):
        """Makes a self-signed certificate for 127.0.0.1; returns the file with it and its key."""
        key, both = self.folder / "key.pem", self.folder / "keystore.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", key, "-out", self.ca_file, "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        both.write_text(key.read_text() + self.ca_file.read_text())
        return str(both)

    def _java(self, *arguments):
        return self._spawn("setpriv", "--pdeathsig", "KILL", "java", *JVM, "-cp", f"{jars_folder()}/*", *arguments)

    def _format(self):
        status = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", self._properties).wait(
            START_DEADLINE_SECONDS)
        if status != 0:
            raise RuntimeError(f"formatting Kafka's storage ended with {status}: {self.log_tail()}")

    def _launch(self):
        return self._java("kafka.Kafka", self._properties)

    def _is_ready(self):
        try:
            return bool(self._admin().list_topics(timeout=5).brokers)
        except KafkaException:
            return False

    def _admin(self):
        return AdminClient({"bootstrap.servers": self.brokers, "log_level": 0, "reconnect.backoff.max.ms": 500},
                           logger=None)

    def create_topic(self, name, partitions=1, settings=None):
        """Returns once the broker accepts messages for it."""
        admin = self._admin()
        made = admin.create_topics([NewTopic(name, partitions, 1, config=settings or {})])
        made[name].result(ANSWER_SECONDS)

        def led():
            topic = admin.list_topics(name, timeout=ANSWER_SECONDS).topics[name]
            return len(topic.partitions) == partitions and all(p.leader == 1 for p in topic.partitions.values())

        wait_for(led, START_DEADLINE_SECONDS, f"topic {name} to have leaders")
        return name

    def topics(self):
        return set(self._admin().list_topics(timeout=ANSWER_SECONDS).topics)

    def read_topic(self, name):
        """Everything in the topic now, partition by partition, in order, as confluent_kafka.Message values."""
        consumer = Consumer({"bootstrap.servers": self.brokers, "group.id": "harness", "enable.auto.commit": False,
                             "enable.partition.eof": False, "log_level": 0})
        with contextlib.closing(consumer):
            partitions = consumer.list_topics(name, timeout=ANSWER_SECONDS).topics[name].partitions
            ends = {}
            for number in partitions:
                low, high = consumer.get_watermark_offsets(TopicPartition(name, number), timeout=ANSWER_SECONDS)
                if high > low:
                    ends[number] = high
            consumer.assign([TopicPartition(name, number, 0) for number in ends])
            found = {number: [] for number in ends}

            def all_read():
                for message in consumer.consume(10_000, timeout=0.2):
                    if message.error():
                        raise KafkaException(message.error())
                    found[message.partition()].append(message)
                return all(found[number] and found[number][-1].offset() >= end - 1 for number, end in ends.items())

            if ends:
                wait_for(all_read, READ_DEADLINE_SECONDS, f"the end of topic {name}")
        return [message for number in sorted(found) for message in found[number]]

    def exports(self):
        """For tests in C++."""
        return {"DELIVERD_TEST_KAFKA_BROKERS": self.brokers, "DELIVERD_TEST_KAFKA_SASL_BROKERS": self.sasl_brokers,
                "DELIVERD_TEST_KAFKA_SSL_BROKERS": self.ssl_brokers, "DELIVERD_TEST_KAFKA_CA_FILE": str(self.ca_file),
                "DELIVERD_TEST_KAFKA_OWN": f"PYTHONPATH={shlex.quote(str(TESTS))} exec {shlex.quote(sys.executable)} "
                                           "-m harness.kafka"}  # for a shell


@contextlib.contextmanager
def kafka_or_reason():
    """For with_servers: a running server, or an object that exports the reason why there is none."""
    try:
        server = KafkaServer()
    except KafkaUnavailable as reason:
        print(f"with_servers: {reason}; the tests that need it are skipped", file=sys.stderr)
        yield _Missing(str(reason))
        return
    with server:
        yield server


class _Missing:
    def __init__(self, reason):
        self._reason = reason

    def exports(self):
        return {"DELIVERD_TEST_KAFKA_MISSING": self._reason}


def main(arguments):
    with KafkaServer(dict(argument.split("=", 1) for argument in arguments)) as server:
        for name, value in server.exports().items():
            print(f"{name}={value}")
        print("ready", flush=True)
        for line in sys.stdin:
            command, *given = line.split()
            if command not in ("kill9", "stop", "start", "pause", "resume", "set_password"):
                raise SystemExit(f"no command '{command}'")
            getattr(server, command)(*given)
            print("ready", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
