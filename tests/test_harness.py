"""Tests of the harness itself."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pika
import pika.exceptions
import psycopg
import pytest
from harness.rabbitmq import RabbitServer
from harness.receiver import Answer, answers
from harness.waiting import wait_for

TESTS = Path(__file__).parent


def post(receiver, key, body=b'{"outbox_id": 7}'):
    request = urllib.request.Request(receiver.url, data=body, headers={"Idempotency-Key": key})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.status, json.load(answer)


def test_wait_for_returns_the_conditions_result():
    seen = iter([None, [], "here"])
    assert wait_for(lambda: next(seen), 5, "three looks") == "here"


def test_wait_for_names_what_did_not_happen():
    with pytest.raises(AssertionError, match="the moon.*last seen: 0"):
        wait_for(lambda: 0, 0.05, "the moon")


def test_receiver_remembers_keys_and_follows_its_script(receiver):
    receiver.answer_with(answers(500))
    with pytest.raises(urllib.error.HTTPError) as failed:
        post(receiver, "a")
    assert failed.value.code == 500
    assert post(receiver, "a") == (200, {"memory_id": "mem-7"})
    assert receiver.times() == {"a": 2}
    assert [call.attempt for call in receiver.calls] == [1, 2]


def test_receiver_drops_and_holds(receiver):
    gate = threading.Event()
    receiver.answer_with(lambda call: Answer(drop=True) if call.key == "drop" else Answer(hold=gate))
    with pytest.raises(OSError):
        post(receiver, "drop")
    got = []
    waiting = threading.Thread(target=lambda: got.append(post(receiver, "hold")))
    waiting.start()
    wait_for(lambda: receiver.times()["hold"] == 1, 5, "the held request")
    assert got == []
    gate.set()
    waiting.join(10)
    assert got == [(200, {"memory_id": "mem-7"})]


def test_two_processes_never_get_the_same_port():
    count = 250  # more than a block
    script = ("from harness.ports import free_port; import sys;"
              f"print(*(free_port() for _ in range({count})), flush=True); sys.stdin.read()")
    both = [subprocess.Popen([sys.executable, "-c", script], cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True) for _ in range(2)]
    ports = [port for process in both for port in process.stdout.readline().split()]
    for process in both:
        process.communicate(timeout=60)
    assert len(ports) == len(set(ports)) == 2 * count


def test_proxy_cuts_and_refuses(shared_server, proxy):
    url = shared_server.url(port=proxy.port)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert proxy.cut() == 1
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    proxy.refuse(True)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url, connect_timeout=5)
    proxy.refuse(False)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_server_keeps_what_was_committed_across_an_immediate_restart(own_server):
    name = own_server.create_database()
    own_server.query(name, "CREATE TABLE kept (n int)")
    own_server.query(name, "INSERT INTO kept VALUES (42)")
    own_server.restart_immediate()
    assert own_server.query(name, "SELECT n FROM kept") == [{"n": 42}]
    own_server.drop_database(name)


def test_with_servers_returns_the_status_and_leaves_nothing():
    script = ("import os, psycopg, sys; c = psycopg.connect(os.environ['DELIVERD_TEST_POSTGRES_URL']);"
              "print(c.execute('SHOW data_directory').fetchone()[0]); sys.exit(7)")
    done = subprocess.run([sys.executable, "-m", "harness.with_servers", "--only", "postgres", "--", sys.executable,
                           "-c", script],
                          cwd=TESTS, capture_output=True, text=True, timeout=240)
    assert done.returncode == 7, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.name == "data" and not folder.parent.exists()


def test_a_killed_run_takes_its_server_with_it():
    script = ("import os, psycopg, signal; url = os.environ['DELIVERD_TEST_POSTGRES_URL'];"
              "folder = psycopg.connect(url).execute('SHOW data_directory').fetchone()[0];"
              "print(url.split(':')[2].split('/')[0], folder, flush=True); signal.pause()")
    run = subprocess.Popen([sys.executable, "-m", "harness.with_servers", "--only", "postgres", "--", sys.executable,
                           "-c", script],
                           cwd=TESTS, stdout=subprocess.PIPE, text=True)
    port, folder = run.stdout.readline().split()
    run.kill()
    run.wait(60)
    run.stdout.close()

    def refused():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(port))) != 0

    wait_for(refused, 15, "the server of a killed run to end")
    wait_for(lambda: not (Path(folder) / "postmaster.pid").exists(), 15, "its last file to go")
    shutil.rmtree(Path(folder).parent)


def test_rabbitmq_keeps_what_is_durable_across_a_kill_and_leaves_nothing():
    with RabbitServer() as server:
        vhost = server.create_vhost()

        def channel():
            connection = pika.BlockingConnection(pika.URLParameters(server.url(vhost)))
            return connection, connection.channel()

        connection, first = channel()
        first.queue_declare("kept", durable=True)
        first.confirm_delivery()
        first.basic_publish("", "kept", b"42", pika.BasicProperties(delivery_mode=2), mandatory=True)
        server.pause()
        server.resume()
        server.keep_definitions()
        server.kill9()
        server.start()
        connection, second = channel()
        assert second.basic_get("kept", auto_ack=True)[2] == b"42"
        connection.close()
        server.drop_vhost(vhost)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            channel()
    assert not server.folder.exists()
    assert _processes_with(str(server.folder)) == []


def test_a_killed_run_takes_its_rabbitmq_with_it():
    run = subprocess.Popen([sys.executable, "-m", "harness.rabbitmq"], cwd=TESTS, stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
    json.loads(run.stdout.readline())  # it runs
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    (folder,) = {os.readlink(f"/proc/{child}/cwd") for child in children}
    assert Path(folder).name.startswith("deliverd-rabbit-")
    assert len(_processes_with(folder)) >= 2  # the server and its epmd
    run.kill()
    run.wait(60)
    run.stdin.close()
    run.stdout.close()
    wait_for(lambda: not _processes_with(folder), 15, "server and epmd of a killed run to end")
    shutil.rmtree(folder)


def _processes_with(folder):
    """The processes running in `folder`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(folder):
                found.append(pid)
        except OSError:  # it ended meanwhile
            pass
    return found
