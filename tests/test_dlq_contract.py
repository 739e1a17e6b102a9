"""The contract of the dead-letter manager, tested against the program itself: one class for each area, and one for the
integration tests. The service runs without Kafka in its configuration, except where a test is about Kafka."""

import inspect
import json
import re
import sys
import uuid

import pytest
import yaml
from harness.dead_letters import add_letter, letter, table
from harness.dlq_service import DLQ, DeadLetterService, add_letters, error, fresh_name
from harness.ports import free_port
from harness.process import ROOT, Programs
from harness.service import Service
from harness.stores import PostgresStore, SqliteStore, write_config
from harness.web import get

UNKNOWN = "00000000-0000-4000-8000-000000000000"
EXAMPLE_FILE = ROOT / "src/config/testing/dlq_manager.yaml"
COUNTS = {"DomainEntityDlqMessage": 13, "InfrastructureConfig": 4, "InfrastructureDatabase": 2, "InfrastructureKafkaMod": 2,
          "InfrastructureKafkaProducer": 2, "UsecaseListMessages": 4, "UsecaseGetMessage": 2, "UsecaseRetryMessage": 4,
          "UsecaseDeleteMessage": 2, "UsecaseRetryAll": 3, "AdapterHandlerDlqHandler": 10, "Integration": 12}


class Manager:
    """A service without Kafka, and its table. Every test has its own topic."""

    def __init__(self, store, service):
        self.store, self.service = store, service

    def add(self, **columns):
        return add_letter(self.store, **columns)

    def row(self, letter_id):
        return letter(self.store, letter_id)

    def ask(self, method, path):
        return get(self.service.base + DLQ + path, method=method)

    def shown(self, letter_id):
        return self.ask("GET", f"/messages/{letter_id}").json()

    def retry(self, letter_id):
        return self.ask("POST", f"/messages/{letter_id}/retry")

    def listed(self, topic, query=""):
        page = self.ask("GET", f"/{topic}{query}")
        assert page.status == 200, page.text
        return page.json()

    def trail(self, letter_id):
        lines = self.ask("GET", f"/messages/{letter_id}/audit").json()["audit"]
        return [(line["status_from"], line["status_to"]) for line in lines]


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def manager(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("contract")
    programs = Programs(folder)
    if request.param == "postgres":
        server = request.getfixturevalue("shared_server")
        store = PostgresStore(server, server.create_database(request.getfixturevalue("template")))
    else:
        store = SqliteStore(folder / "store.db")
    port = free_port()
    yield Manager(store, Service(programs, write_config(folder, store, server={"port": port}), port))
    programs.end_all()
    if request.param == "postgres":
        store.server.drop_database(store.database)


@pytest.fixture
def topic():
    return fresh_name("contract")


def config_show(programs, tmp_path, document):
    """Setting → (value, source), from `config show`."""
    (tmp_path / "config.yaml").write_text(document if isinstance(document, str) else json.dumps(document))
    answer = programs.run("config", "show", "--config", tmp_path / "config.yaml").ok().stdout
    return {words[0]: words[1] for words in map(str.split, answer.splitlines()) if len(words) > 2}


def open_address(**changes):
    """The example configuration, with the one line that an open address needs."""
    return yaml.safe_load(EXAMPLE_FILE.read_text()) | {"auth": {"mode": "none"}} | changes


@pytest.mark.parametrize("name, count", COUNTS.items(), ids=COUNTS)
def test_no_test_of_the_contract_is_missing(name, count):
    tests = inspect.getmembers(getattr(sys.modules[__name__], "Test" + name), inspect.isfunction)
    assert len([test for test, _ in tests if test.startswith("test_")]) == count
    assert sum(COUNTS.values()) == 48 + 12


class TestDomainEntityDlqMessage:
    def test_new_is_pending(self, manager, topic):
        found = manager.shown(manager.add(original_topic=topic))
        assert (found["status"], found["retry_count"], found["max_retries"]) == ("PENDING", 0, 3)
        assert found["last_retry_at"] is None and found["created_at"] == found["updated_at"]

    def test_new_makes_its_own_uuid(self, manager, topic):
        for _ in range(2):
            manager.store.query(f"INSERT INTO {table(manager.store)} (original_topic, error_message) VALUES (?, 'e')"
                             " RETURNING id", topic)
        ids = {message["id"] for message in manager.listed(topic)["messages"]}
        assert len(ids) == 2 and {str(uuid.UUID(found)) for found in ids} == ids

    def test_mark_retrying_counts_and_records_the_time(self, manager, topic):
        found = manager.add(original_topic=topic)
        manager.retry(found)
        shown = manager.shown(found)
        assert shown["retry_count"] == 1 and shown["last_retry_at"] >= shown["created_at"]
        assert manager.trail(found)[0] == ("PENDING", "RETRYING")

    def test_mark_retrying_again_increments_the_count(self, manager, topic):
        found = manager.add(original_topic=topic, status="RETRYING", retry_count=1)
        manager.retry(found)
        assert manager.shown(found)["retry_count"] == 2
        assert manager.trail(found)[0] == ("RETRYING", "RETRYING")

    def test_mark_resolved(self, manager, topic):
        found = manager.add(original_topic=topic)
        manager.retry(found)
        assert manager.shown(found)["status"] == "RESOLVED"
        assert manager.trail(found)[1] == ("RETRYING", "RESOLVED")

    @pytest.mark.parametrize("status", ["PENDING", "RETRYING"])
    def test_mark_dead(self, manager, topic, status):
        found = manager.add(original_topic=topic, status=status)
        assert manager.ask("POST", f"/messages/{found}/dead").status == 200
        assert manager.shown(found)["status"] == "DEAD" and manager.trail(found) == [(status, "DEAD")]

    @pytest.mark.parametrize("status", ["PENDING", "RETRYING", "RESOLVED", "DEAD"])
    def test_status_display(self, manager, topic, status):
        assert manager.shown(manager.add(original_topic=topic, status=status))["status"] == status

    @pytest.mark.parametrize("status", ["PENDING", "RETRYING", "RESOLVED", "DEAD"])
    def test_status_from_str(self, manager, topic, status):
        ids = {name: manager.add(original_topic=topic, status=name) for name in ("PENDING", "RETRYING", "RESOLVED", "DEAD")}
        (found,) = manager.listed(topic, f"?status={status}")["messages"]
        assert found["id"] == ids[status]

    @pytest.mark.parametrize("status", ["pending", "UNKNOWN", "PENDING%20", "0"])
    def test_status_from_str_refuses_others(self, manager, topic, status):
        assert error(manager.ask("GET", f"/{topic}?status={status}"))[:2] == (400, "SYS_DLQ_VALIDATION_ERROR")

    def test_is_retryable_pending(self, manager, topic):
        found = manager.add(original_topic=topic)
        assert manager.shown(found)["retryable"] and manager.retry(found).status == 200

    def test_is_retryable_retrying_below_the_limit(self, manager, topic):
        found = manager.add(original_topic=topic, status="RETRYING", retry_count=2)
        assert manager.shown(found)["retryable"] and manager.retry(found).status == 200

    def test_is_not_retryable_at_the_limit(self, manager, topic):
        found = manager.add(original_topic=topic, status="RETRYING", retry_count=3)
        assert not manager.shown(found)["retryable"] and manager.retry(found).status == 409

    @pytest.mark.parametrize("status", ["RESOLVED", "DEAD"])
    def test_is_not_retryable_when_finished(self, manager, topic, status):
        found = manager.add(original_topic=topic, status=status)
        assert not manager.shown(found)["retryable"] and manager.retry(found).status == 409


class TestInfrastructureConfig:
    def test_deserializes_the_example_file(self, programs, tmp_path):
        answer = config_show(programs, tmp_path, open_address())
        wanted = {"app.name": "dlq-manager", "app.version": "0.1.0", "app.environment": "production",
                  "server.host": "0.0.0.0", "server.port": "8080"}
        assert {name: answer[name] for name in wanted} == wanted

    def test_defaults(self, programs, tmp_path):
        answer = config_show(programs, tmp_path, "{}")
        assert (answer["server.host"], answer["server.port"]) == ("127.0.0.1", "8080"), "only loopback by default"

    def test_without_a_database_it_works(self, programs, tmp_path):
        """The default database is a file."""
        (tmp_path / "deliverd.yaml").write_text("app: { name: dlq-manager }\n")
        programs.run("migrate").ok()
        assert json.loads(programs.run("dlq", "list", "--json").ok().stdout) == []
        assert (tmp_path / "deliverd.db").exists()

    def test_without_kafka_it_works(self, programs, sqlite, tmp_path):
        config = write_config(tmp_path, sqlite)
        found = add_letter(sqlite)
        answer = json.loads(programs.run("dlq", "retry", found, "--json", "--config", config).ok().stdout)
        assert (answer["id"], answer["status"]) == (found, "RESOLVED")


class TestInfrastructureDatabase:
    def test_connects_by_its_parts(self, programs, postgres, tmp_path):
        """host, port, name, user and so on instead of a URL; CONFIG_PATH names the file."""
        found = add_letter(postgres)
        parts = re.fullmatch(r"postgres(?:ql)?://(?P<user>[^:@/]+)(?::(?P<password>[^@]*))?@(?P<host>[^:/]+):(?P<port>\d+)"
                             r"/(?P<name>[^?]+)", postgres.url).groupdict()
        document = open_address()
        document["database"] |= parts | {"port": int(parts["port"]), "password": parts["password"] or ""}
        del document["kafka"]
        (tmp_path / "config.yaml").write_text(json.dumps(document))
        listed = programs.run("dlq", "list", "--json", env={"CONFIG_PATH": "config.yaml"}).ok().stdout
        assert [row["id"] for row in json.loads(listed)] == [found]

    def test_deserializes_the_example_section(self, programs, tmp_path):
        answer = config_show(programs, tmp_path, open_address())
        wanted = {"host": "postgres.k1s0-system.svc.cluster.local", "port": "5432", "name": "k1s0_dlq", "user": "app",
                  "ssl_mode": "disable", "max_open_conns": "25", "max_idle_conns": "5", "conn_max_lifetime": "5m"}
        assert {name: answer[f"database.{name}"] for name in wanted} == wanted


class TestInfrastructureKafkaMod:
    def test_deserializes_the_example_section(self, programs, tmp_path):
        answer = config_show(programs, tmp_path, open_address())
        wanted = {"brokers": "kafka-0.messaging.svc.cluster.local:9092", "consumer_group": "dlq-manager.default",
                  "security_protocol": "PLAINTEXT", "dlq_topic_pattern": "*.dlq.v1"}
        assert {name: answer[f"kafka.{name}"] for name in wanted} == wanted

    def test_defaults(self, programs, tmp_path):
        answer = config_show(programs, tmp_path, open_address(kafka={"brokers": ["kafka-0:9092"]}))
        wanted = {"brokers": "kafka-0:9092", "consumer_group": "dlq-manager.default", "security_protocol": "PLAINTEXT",
                  "dlq_topic_pattern": "*.dlq.v1"}
        assert {name: answer[f"kafka.{name}"] for name in wanted} == wanted


class TestInfrastructureKafkaProducer:
    def test_publishes_to_the_original_topic(self, programs, postgres, kafka, tmp_path):
        topic = kafka.create_topic(fresh_name("producer"))
        ((found, value),) = add_letters(postgres, topic, 1).items()
        service = DeadLetterService(programs, tmp_path, postgres, kafka, topic)
        assert service.retry(found).json()["status"] == "RESOLVED"
        assert [message.value() for message in kafka.read_topic(topic)] == [value]

    def test_an_error_is_reported_and_nothing_is_resolved(self, programs, postgres, kafka, tmp_path):
        """The broker creates no topics by itself."""
        topic = fresh_name("missing")
        (found,) = add_letters(postgres, topic, 1)
        service = DeadLetterService(programs, tmp_path, postgres, kafka, topic,
                                    dead_letters={"replay_timeout_seconds": 2})
        status, code, message = error(service.retry(found))
        assert (status, code) == (500, "SYS_DLQ_INTERNAL_ERROR") and "published" in message, message
        shown = service.letter(found)
        assert shown["status"] in ("PENDING", "RETRYING") and shown["retryable"] and not shown["in_doubt"]


class TestUsecaseListMessages:
    def test_empty(self, manager, topic):
        assert manager.listed(topic)["messages"] == []

    def test_with_results(self, manager, topic):
        ids = {manager.add(original_topic=topic), manager.add(original_topic=topic)}
        manager.add(original_topic=topic + "-other")
        assert {message["id"] for message in manager.listed(topic)["messages"]} == ids

    def test_pagination(self, manager, topic):
        """Newest first, the requested number, and whether more follow."""
        ids = [manager.add(original_topic=topic, created_at=f"2026-02-20T10:30:{number:02}.000Z") for number in range(25)]
        pages = [manager.listed(topic, f"?page={page}&page_size=10") for page in (1, 2, 3, 4)]
        assert [[message["id"] for message in page["messages"]] for page in pages] \
            == [ids[:14:-1], ids[14:4:-1], ids[4::-1], []]
        answer = [list(page["pagination"].values())[:4] for page in pages]
        assert answer == [[25, 1, 10, True], [25, 2, 10, True], [25, 3, 10, False], [25, 4, 10, False]]
        assert pages[0]["messages"][0]["created_at"] == "2026-02-20T10:30:24.000+00:00"
        usual = manager.listed(topic)
        assert (len(usual["messages"]), usual["pagination"]["page_size"]) == (20, 20)

    def test_repository_error(self, programs, postgres, proxy, tmp_path):
        port = free_port()
        config = write_config(tmp_path, None, server={"port": port},
                              database={"url": postgres.server.url(postgres.database, port=proxy.port)})
        service = Service(programs, config, port)
        proxy.refuse(True)
        proxy.cut()
        assert error(service.get(f"{DLQ}/orders.dlq.v1"))[:2] == (503, "SYS_DLQ_INTERNAL_ERROR")


class TestUsecaseGetMessage:
    def test_found(self, manager, topic):
        found = manager.add(original_topic=topic, payload='{"order_id": "123"}')
        assert (manager.shown(found)["id"], manager.shown(found)["payload"]) == (found, {"order_id": "123"})

    def test_not_found(self, manager):
        assert error(manager.ask("GET", f"/messages/{UNKNOWN}"))[:2] == (404, "SYS_DLQ_NOT_FOUND")


class TestUsecaseRetryMessage:
    def test_success(self, manager, topic):
        found = manager.add(original_topic=topic)
        assert manager.retry(found).json() == {"id": found, "status": "RESOLVED", "message": "message retry initiated"}

    def test_not_found(self, manager):
        assert error(manager.retry(UNKNOWN)) == (404, "SYS_DLQ_NOT_FOUND", f"dlq message not found: {UNKNOWN}")

    def test_not_retryable(self, manager, topic):
        found = manager.add(original_topic=topic, status="DEAD", retry_count=3)
        assert error(manager.retry(found)) \
            == (409, "SYS_DLQ_CONFLICT", "message is not retryable: status=DEAD, retry_count=3/3")

    def test_max_retries_exceeded(self, manager, topic):
        found = manager.add(original_topic=topic, status="RETRYING", retry_count=5, max_retries=5)
        assert error(manager.retry(found)) \
            == (409, "SYS_DLQ_CONFLICT", "message is not retryable: status=RETRYING, retry_count=5/5")
        assert manager.row(found)["retry_count"] == 5


class TestUsecaseDeleteMessage:
    def test_success(self, manager, topic):
        found = manager.add(original_topic=topic)
        assert manager.ask("DELETE", f"/messages/{found}").json() == {"success": True, "message": f"message {found} deleted"}
        assert manager.listed(topic)["pagination"]["total_count"] == 0

    def test_error(self, manager):
        assert error(manager.ask("DELETE", f"/messages/{UNKNOWN}"))[:2] == (404, "SYS_DLQ_NOT_FOUND")


class TestUsecaseRetryAll:
    def test_empty_topic(self, manager, topic):
        answer = manager.ask("POST", f"/{topic}/retry-all").json()
        assert (answer["retried"], answer["message"]) == (0, f"0 messages retried in topic {topic}")

    def test_with_messages(self, manager, topic):
        """More than one page of the hundred letters that retry-all handles at a time."""
        for _ in range(101):
            manager.add(original_topic=topic)
        assert manager.ask("POST", f"/{topic}/retry-all").json()["retried"] == 101
        assert manager.listed(topic, "?status=RESOLVED")["pagination"]["total_count"] == 101

    def test_skips_what_is_not_retryable(self, manager, topic):
        skipped = [manager.add(original_topic=topic, status="DEAD"), manager.add(original_topic=topic, status="RESOLVED"),
                   manager.add(original_topic=topic, status="RETRYING", retry_count=3)]
        before = [manager.row(found) for found in skipped]
        taken = [manager.add(original_topic=topic), manager.add(original_topic=topic, status="RETRYING", retry_count=1)]
        assert manager.ask("POST", f"/{topic}/retry-all").json()["retried"] == 2
        assert [manager.row(found) for found in skipped] == before
        assert [manager.row(found)["status"] for found in taken] == ["RESOLVED", "RESOLVED"]


class TestAdapterHandlerDlqHandler:
    def test_healthz(self, manager):
        assert manager.service.get("/healthz").json() == {"status": "ok"}

    def test_readyz(self, manager):
        assert manager.service.get("/readyz").status == 200

    def test_list_messages(self, manager, topic):
        manager.add(original_topic=topic)
        page = manager.listed(topic, "?page=1&page_size=100")
        assert [message["original_topic"] for message in page["messages"]] == [topic]

    @pytest.mark.parametrize("query", ["page=0", "page=-1", "page=x", "page_size=0", "page_size=101", "page_size="])
    def test_list_messages_refuses_other_pages(self, manager, topic, query):
        page = manager.ask("GET", f"/{topic}?{query}")
        assert error(page)[:2] == (400, "SYS_DLQ_VALIDATION_ERROR")
        assert page.json()["error"]["details"][0]["field"] == query.partition("=")[0]

    def test_get_message(self, manager, topic):
        assert manager.ask("GET", f"/messages/{manager.add(original_topic=topic)}").status == 200

    def test_get_message_404(self, manager):
        page = manager.ask("GET", f"/messages/{UNKNOWN}")
        assert error(page) == (404, "SYS_DLQ_NOT_FOUND", f"dlq message not found: {UNKNOWN}")
        assert list(page.json()["error"]) == ["code", "message", "request_id", "details"]
        assert page.json()["error"]["details"] == []

    def test_get_message_400(self, manager):
        assert error(manager.ask("GET", "/messages/not-a-uuid")) \
            == (400, "SYS_DLQ_VALIDATION_ERROR", "invalid message id: not-a-uuid")

    def test_delete_message(self, manager, topic):
        assert manager.ask("DELETE", f"/messages/{manager.add(original_topic=topic)}").status == 200

    def test_retry_message(self, manager, topic):
        assert manager.retry(manager.add(original_topic=topic)).status == 200

    def test_retry_all(self, manager, topic):
        manager.add(original_topic=topic)
        assert manager.ask("POST", f"/{topic}/retry-all").status == 200


class TestIntegration:
    """One test for each endpoint and answer."""

    def test_healthz_returns_ok(self, manager):
        assert (manager.service.get("/healthz").status, manager.service.get("/healthz").json()) == (200, {"status": "ok"})

    def test_readyz_returns_ok(self, manager):
        assert manager.service.get("/readyz").status == 200

    def test_metrics_returns_ok(self, manager):
        page = manager.service.get("/metrics")
        assert page.status == 200 and "# TYPE dlq_letters gauge" in page.text

    def test_list_messages_empty_topic(self, manager, topic):
        page = manager.listed(topic)
        assert page["messages"] == []
        assert list(page["pagination"].items())[:4] == [("total_count", 0), ("page", 1), ("page_size", 20), ("has_next", False)]

    def test_list_messages_returns_stored_message(self, manager, topic):
        found = manager.add(original_topic=topic, created_at="2026-02-20T10:30:00.000Z", updated_at="2026-02-20T10:30:00.000Z")
        (message,) = manager.listed(topic)["messages"]
        assert list(message.items())[:10] == [
            ("id", found), ("original_topic", topic), ("error_message", "processing failed"), ("retry_count", 0),
            ("max_retries", 3), ("payload", {"order_id": "123"}), ("status", "PENDING"),
            ("created_at", "2026-02-20T10:30:00.000+00:00"), ("updated_at", "2026-02-20T10:30:00.000+00:00"),
            ("last_retry_at", None)]

    def test_get_message_returns_404_when_not_found(self, manager):
        assert manager.ask("GET", f"/messages/{UNKNOWN}").status == 404

    def test_get_message_returns_message(self, manager, topic):
        found = manager.add(original_topic=topic, status="RETRYING", retry_count=1, created_at="2026-02-20T10:30:00.000Z",
                         updated_at="2026-02-20T10:31:00.000Z", last_retry_at="2026-02-20T10:31:00.000Z")
        assert list(manager.shown(found).items())[:10] == [
            ("id", found), ("original_topic", topic), ("error_message", "processing failed"), ("retry_count", 1),
            ("max_retries", 3), ("payload", {"order_id": "123"}), ("status", "RETRYING"),
            ("created_at", "2026-02-20T10:30:00.000+00:00"), ("updated_at", "2026-02-20T10:31:00.000+00:00"),
            ("last_retry_at", "2026-02-20T10:31:00.000+00:00")]

    def test_get_message_returns_400_for_invalid_id(self, manager):
        assert manager.ask("GET", "/messages/not-a-uuid").status == 400

    def test_retry_message_returns_404_when_not_found(self, manager):
        assert manager.retry(UNKNOWN).status == 404

    def test_retry_message_resolves_pending_message(self, manager, topic):
        found = manager.add(original_topic=topic)
        assert manager.retry(found).json()["status"] == manager.shown(found)["status"] == "RESOLVED"

    def test_delete_message_returns_ok(self, manager, topic):
        found = manager.add(original_topic=topic)
        assert manager.ask("DELETE", f"/messages/{found}").json()["success"] is True
        assert manager.ask("GET", f"/messages/{found}").status == 404

    def test_retry_all_returns_retried_count(self, manager, topic):
        for _ in range(15):
            manager.add(original_topic=topic)
        answer = manager.ask("POST", f"/{topic}/retry-all").json()
        assert (answer["retried"], answer["message"]) == (15, f"15 messages retried in topic {topic}")
