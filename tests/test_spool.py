"""`deliverd spool` as users see it: on a file, with a receiver that answers, fails and redirects."""

import contextlib
import json
import os
import pty
import shutil
import subprocess

import pytest
from harness.documents import exchanges, is_as_shown, type_in
from harness.ports import free_port
from harness.process import build_dir, program
from harness.receiver import Answer
from harness.root import NOBODY, only_as_root
from harness.spool import SpoolFile
from harness.waiting import wait_for
from harness.web import get

# A typical writeToDLQ of an application in JavaScript, with its calcDelay.
WRITER_JAVASCRIPT = """
const fs = require('fs');
const [path, endpoint] = process.argv.slice(2);
function calcDelay(attempt) {
  const base = 60000 * Math.pow(2, attempt - 1);
  const jitter = (Math.random() * 2 - 1) * 30000;
  return Math.min(base + jitter, 3600000);
}
function writeToDLQ(hook, endpoint, error, attemptsMade = 0) {
  const entry = {
    jobId: `hook-${Date.now()}-${Math.random().toString(36).slice(2, 8)}`,
    data: { hook, endpoint },
    attemptsMade: attemptsMade + 1,
    maxAttempts: 5,
    timestamp: Date.now(),
    nextRetry: Date.now() + calcDelay(attemptsMade + 1),
    error: { message: error.message, code: error.code || null },
    state: attemptsMade + 1 >= 5 ? 'exhausted' : 'pending',
  };
  fs.appendFileSync(path, JSON.stringify(entry) + '\\n');
}
writeToDLQ({ text: 'it\\'s "quoted" \\u{1F600} \\ud800', n: 0.1 }, endpoint, new Error('boom'));
writeToDLQ([1, 2], endpoint, { message: 'late', code: 504 }, 3);
writeToDLQ('text', endpoint, { message: 'last', code: 'ECONNRESET' }, 4);
"""


@pytest.fixture
def spool(programs, receiver, tmp_path):
    return SpoolFile(programs, receiver, tmp_path / "hooks.jsonl")


def test_a_failed_webhook_is_delivered_later_under_the_same_key(spool, receiver):
    job = spool.add('{"id": 7, "price": 1.50}', "--error", "unavailable", "--code", "503")
    assert spool.retry() == ({"total": 0, "resolved": 0, "failed": 0, "exhausted": 0}, 0)
    receiver.answer_with(lambda call: Answer(503 if call.attempt == 1 else 201, {}))
    spool.make_due()
    assert spool.retry() == ({"total": 1, "resolved": 0, "failed": 1, "exhausted": 0}, 1)
    (entry,) = spool.entries
    assert (entry["jobId"], entry["attemptsMade"], entry["state"]) == (job, 2, "pending")
    assert entry["error"] == {"message": "HTTP 503", "code": "503"}
    spool.make_due()
    assert spool.retry("--token-env", "T", "--token-host", "127.0.0.1", env={"T": "s3cret"}) == (
        {"total": 1, "resolved": 1, "failed": 0, "exhausted": 0}, 0)
    (entry,) = spool.entries
    assert (entry["state"], entry["mine"]) == ("resolved", {"kept": True})
    assert entry["resolvedAt"] >= entry["timestamp"]
    first, second = receiver.calls
    assert first.body == second.body == {"id": 7, "price": 1.5, "idempotencyKey": job}
    assert (second.headers["authorization"], second.headers["content-type"]) == ("Bearer s3cret", "application/json")
    assert "authorization" not in first.headers


def test_the_fifth_failure_is_the_last(spool, receiver):
    receiver.answer_with(lambda call: Answer(500, {}))
    job = spool.add("[1]", "--attempts-made", "3")
    spool.make_due()
    assert spool.retry() == ({"total": 1, "resolved": 0, "failed": 0, "exhausted": 1}, 1)
    assert [entry["state"] for entry in spool.entries] == ["exhausted"]
    assert spool.retry()[0]["total"] == 0
    assert receiver.calls[0].body == {"idempotencyKey": job, "payload": [1]}
    assert spool.run("resolve", job).ok().stdout == "1 resolved\n"
    assert spool.run("show", job).ok().stdout.count('"state":"resolved"') == 1
    assert "no entry nobody" in spool.run("resolve", "nobody").error_line(1)


def test_private_addresses_and_redirects_are_refused(spool, receiver):
    spool.add("{}")
    spool.make_due()
    done = spool.run("retry", "--json")
    assert (json.loads(done.stdout)["failed"], done.status, receiver.count()) == (1, 1, 0)
    assert spool.entries[0]["error"]["code"] == "PRIVATE_ADDRESS"
    receiver.answer_with(lambda call: Answer(307, {}, headers={"Location": "/elsewhere"}))
    spool.make_due()
    assert spool.retry()[0]["failed"] == 1
    assert [call.path for call in receiver.calls] == ["/hooks"]


def test_entries_written_by_javascript_are_read_without_loss(spool, receiver, tmp_path):
    node = shutil.which("node")
    assert node, "node is among the packages of the tests"
    (tmp_path / "writer.js").write_text(WRITER_JAVASCRIPT)
    subprocess.run([node, tmp_path / "writer.js", spool.path, spool.endpoint], check=True)
    written = spool.path.read_text().splitlines()
    assert len(written) == 3
    listed = spool.run("list", "--json").ok()
    assert (listed.stdout, listed.stderr) == ("[" + ",\n ".join(written) + "]\n", "")
    pending = [json.loads(line)["jobId"] for line in written[:2]]
    spool.run("resolve", pending[1]).ok()
    assert spool.path.read_text().splitlines()[::2] == written[::2], "unchanged lines are not rewritten"
    changed = json.loads(spool.path.read_text().splitlines()[1])
    assert list(changed) == [*json.loads(written[1]), "resolvedAt"], "the seed's order"


def test_an_invalid_time_is_listed_as_written(spool):
    job = spool.add("{}")
    spool.path.write_text(json.dumps(spool.entries[0] | {"nextRetry": 1_770_000_000_000_000}) + "\n")
    (line,) = [line for line in spool.run("list").ok().stdout.splitlines() if job in line]
    assert "1770000000000000" in line
    assert job not in spool.run("list", "--due").ok().stdout


def test_invalid_lines_are_reported_and_moved(spool):
    spool.add("{}")
    with open(spool.path, "a", encoding="utf-8") as file:
        file.write("no entry\n{torn")
    listed = spool.run("list").ok()
    assert "hooks.jsonl:2: is not a JSON object" in listed.stderr
    assert "torn by a crash" in listed.stderr
    assert json.loads(spool.run("cleanup", "--json").ok().stdout) == {"kept": 1, "removed": 0, "rejected": 2}
    assert len(spool.entries) == 1
    moved = [json.loads(line) for line in (spool.path.parent / "hooks.jsonl.rejected").read_text().splitlines()]
    assert [(record["line"], record["text"]) for record in moved] == [(2, "no entry"), (3, "{torn")]


def test_resolve_reports_the_lines_it_moves(spool):
    job = spool.add("{}")
    with open(spool.path, "a", encoding="utf-8") as file:
        file.write("no entry\n")
    done = spool.run("resolve", job).ok()
    assert (done.stdout, "1 unreadable line was moved to" in done.stderr) == ("1 resolved\n", True)


def test_a_retry_killed_while_it_sends_is_recorded_by_the_next(spool, receiver, programs):
    jobs = [spool.add("{}") for _ in range(3)]
    spool.make_due()
    receiver.answer_with(lambda call: Answer(drop=True) if call.number == 3 and kill() else Answer(200, {}))
    running = []

    def kill():
        wait_for(lambda: running, 20, "the process to be known")
        running[0].kill9()
        return True

    running.append(programs.start("spool", "retry", "--file", spool.path, "--allow-private"))
    assert running[0].wait() == -9
    assert [entry["state"] for entry in spool.entries] == ["pending"] * 3
    assert spool.retry() == ({"total": 1, "resolved": 1, "failed": 0, "exhausted": 0}, 0)
    assert [entry["state"] for entry in spool.entries] == ["resolved"] * 3
    times = receiver.times()
    assert sorted(times[job] for job in jobs) == [1, 1, 2]


def test_errors_are_one_line_and_leave_the_file_alone(spool, tmp_path):
    assert "No such file" in spool.run("retry").error_line(1)
    assert "payload is not JSON" in spool.run("add", "--endpoint", spool.endpoint, "--data", "{").error_line(2)
    assert "http:// or https://" in spool.run("add", "--endpoint", "ftp://x", "--data", "{}").error_line(2)
    assert "--token-env NONE" in spool.run("retry", "--token-env", "NONE").error_line(2)
    assert not list(tmp_path.glob("hooks*"))


def unprivileged():
    """A command prefix that drops root's right to write anywhere."""
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


@pytest.mark.parametrize("command", ["retry", "cleanup", "add", "resolve"])
def test_a_folder_that_cannot_be_written_is_an_error_and_the_file_stays(spool, tmp_path, programs, command):
    folder = tmp_path / "read-only"
    folder.mkdir()
    path = folder / "hooks.jsonl"
    words = [program("deliverd"), "spool", command, "--file", path]
    spool.append(spool.exhausted("a", state="pending", nextRetry=1, attemptsMade=1), spool.exhausted("b", nextRetry=1))
    path.write_text(spool.path.read_text())
    before = path.read_text()
    path.chmod(0o444)
    folder.chmod(0o555)
    more = {"add": ["--endpoint", spool.endpoint, "--data", "{}"], "resolve": ["a"]}.get(command, [])
    done = subprocess.run([*unprivileged(), *words, *more], capture_output=True, text=True, timeout=240,
                          env=programs.environment())
    folder.chmod(0o755)
    assert (done.returncode, done.stdout) == (1, ""), done
    (line,) = done.stderr.splitlines()
    assert "Permission denied" in line and str(path) in line
    assert path.read_text() == before and [file.name for file in folder.iterdir()] == ["hooks.jsonl"]


def test_a_retry_shows_its_progress_on_a_terminal(spool, receiver, programs):
    receiver.answer_with(lambda call: Answer(200 if call.number != 2 else 503, {}))
    for _ in range(3):
        spool.add("{}")
    spool.make_due()
    screen, terminal = pty.openpty()
    try:
        done = subprocess.run([program("deliverd"), "spool", "retry", "--file", spool.path, "--allow-private", "--json"],
                              stdout=subprocess.PIPE, stderr=terminal, timeout=240, env=programs.environment())
        os.close(terminal)
        seen = b""
        with contextlib.suppress(OSError):  # the end of a terminal that nobody has open
            while chunk := os.read(screen, 65536):
                seen += chunk
    finally:
        os.close(screen)
    erase = "\x1b[K"  # clears to the end of the line, so that nothing of a longer line remains
    lines = ("1 of 3: 1 resolved, 0 failed", "2 of 3: 1 resolved, 1 failed", "3 of 3: 2 resolved, 1 failed", "")
    assert seen.decode() == "".join(f"\r{line}{erase}" for line in lines)
    assert (done.returncode, json.loads(done.stdout)["resolved"]) == (1, 2)


def test_every_example_of_the_spool_page(programs, receiver, tmp_path):
    (tmp_path / "build").symlink_to(build_dir())
    for exchange in exchanges("docs/spool.md"):
        said = type_in(exchange.command, f"http://127.0.0.1:{receiver.port}", programs)
        assert is_as_shown(said, exchange.shown), said


def test_output_cannot_control_a_terminal(spool, programs):
    red = "\u009b31mred\u001b[31m\u0085\u007f\u202e"
    job = spool.add(json.dumps(red, ensure_ascii=False), "--error", red, "--code", "\u009d")
    shown = spool.run("list").ok().stdout
    assert "31mred" in shown
    for command in (["show", job], ["list", "--json"]):
        text = spool.run(*command).ok().stdout
        (entry,) = spool.entries
        assert json.loads(text) in (entry, [entry]) and entry["data"]["hook"] == red, "it means the same"
        shown += text
    said = programs.run("spool", "list", "--file", "no\u009b31m\u001b[31m.jsonl").stderr
    assert "no 31m" in said
    assert not [c for c in (shown + said).replace("\n", "") if ord(c) < 32 or 0x7F <= ord(c) <= 0x9F or c == "\u202e"]


@pytest.fixture
def planted(spool, tmp_path):
    """A folder and spool of a malicious user, and a file that only root may read."""
    only_as_root()
    (tmp_path / "root").mkdir(mode=0o700)
    secret = tmp_path / "root" / "hooks.jsonl"
    spool.append(spool.exhausted("a", state="pending"), spool.exhausted("old", state="resolved", resolvedAt=1, nextRetry=1))
    secret.write_text(spool.path.read_text())
    secret.chmod(0o600)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "hooks.jsonl").write_text("no entry\n" + spool.path.read_text())
    for path in (theirs, theirs / "hooks.jsonl"):
        os.chown(path, NOBODY, NOBODY)
    before = secret.read_bytes()
    yield theirs, secret
    assert (secret.read_bytes(), secret.stat().st_uid, secret.stat().st_mode & 0o777) == (before, 0, 0o600)
    assert os.listdir(secret.parent) == ["hooks.jsonl"]


@pytest.mark.parametrize("ending", [".new", ".journal", ".rejected", ".lock", ".work.lock"])
def test_roots_cleanup_follows_no_link_beside_a_spool(programs, planted, ending):
    theirs, secret = planted
    link = theirs / f"hooks.jsonl{ending}"
    link.symlink_to(secret)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    reported = programs.run("spool", "cleanup", "--file", theirs / "hooks.jsonl").error_line(1)
    assert f"{link} is a symbolic link" in reported
    link.unlink()
    programs.run("spool", "cleanup", "--file", theirs / "hooks.jsonl").ok()
    assert (theirs / "hooks.jsonl").stat().st_uid == NOBODY, "it keeps its owner"


def test_roots_cleanup_follows_no_folder_of_another_user(programs, planted):
    theirs, secret = planted
    (theirs / "spool").symlink_to(secret.parent)
    os.chown(theirs / "spool", NOBODY, NOBODY, follow_symlinks=False)
    for command in (["cleanup"], ["add", "--endpoint", "http://127.0.0.1/", "--data", "{}"], ["list"]):
        reported = programs.run("spool", *command, "--file", theirs / "spool" / "hooks.jsonl").error_line(1)
        assert f"{theirs / 'spool'} is a symbolic link that belongs to user {NOBODY}" in reported


def test_a_missing_token_file_matters_only_to_serve(programs, tmp_path):
    (tmp_path / "deliverd.yaml").write_text("spools:\n  hooks: { path: hooks.jsonl, token_env: NOT_THERE }\n")
    said = programs.run("serve").stderr
    assert "spools.hooks.token_env: the environment variable NOT_THERE is not set" in said
    programs.run("migrate").ok()


def test_the_token_is_sent_only_to_its_hosts(spool, receiver):
    receiver.answer_with(lambda call: Answer(401, {}))
    secret = {"DELIVERD_SPOOL_TOKEN": "s3cret"}
    spool.add("1")
    spool.make_due()
    said = spool.run("retry", "--allow-private", env=secret)
    assert "authorization" not in receiver.calls[-1].headers, "no host is named for it"
    assert said.stderr.count("no token is sent") == 1 and "--token-host" in said.stderr, said.stderr
    assert spool.entries[0]["error"]["message"] == "HTTP 401; it was sent without the token, which is not for http://127.0.0.1"
    spool.make_due()
    spool.retry("--token-host", "example.com", env=secret)
    assert "authorization" not in receiver.calls[-1].headers, "the token is for another host"
    spool.make_due()
    spool.retry("--token-host", "example.com", "--token-host", "127.0.0.1", env=secret)
    assert receiver.calls[-1].headers["authorization"] == "Bearer s3cret"
    assert spool.entries[0]["error"]["message"] == "HTTP 401"
    assert "https://example.com" in spool.run("retry", "--token-host", "https://example.com").error_line(2)


def test_a_redirect_does_not_carry_the_token_elsewhere(spool, receiver):
    receiver.answer_with(lambda call: Answer(307, {}, {"Location": f"http://localhost:{receiver.port}/elsewhere"}))
    spool.add("1")
    spool.make_due()
    spool.retry("--token-host", "127.0.0.1", "--token-host", "localhost", env={"DELIVERD_SPOOL_TOKEN": "s3cret"})
    assert [call.path for call in receiver.calls] == ["/hooks"]


def test_a_spool_without_token_hosts_sends_no_token_and_says_so(spool, receiver, programs, tmp_path):
    port = free_port()
    receiver.answer_with(lambda call: Answer(200, {}))
    (tmp_path / "deliverd.yaml").write_text(
        f"server: {{ port: {port} }}\nspools:\n  hooks: {{ path: hooks.jsonl, token_env: T, allow_private: true,"
        " retry_seconds: 0.1 }\n")
    words = "spools.hooks has no token_hosts, so the token of T is sent to no host"
    assert words in programs.run("config", "check").ok().stderr
    assert words in programs.run("doctor").stdout
    spool.add("1")
    spool.make_due()
    serve = programs.start("serve", env={"T": "s3cret"})
    wait_for(lambda: receiver.count() == 1, 20, lambda: serve.stderr)
    assert "authorization" not in receiver.calls[0].headers
    serve.terminate()
    assert serve.wait() == 0, serve.stderr
    assert serve.stderr.count(words) == 1


def test_serve_retries_and_cleans_up_on_a_schedule(spool, receiver, programs, tmp_path):
    port = free_port()
    receiver.answer_with(lambda call: Answer(200, {}))
    (tmp_path / "deliverd.yaml").write_text(
        f"server: {{ port: {port} }}\nspools:\n  hooks: {{ path: hooks.jsonl, token_env: T, token_hosts: [127.0.0.1],"
        " allow_private: true, retry_seconds: 0.1, cleanup_seconds: 0.1 }\n")
    serve = programs.start("serve", env={"T": "s3cret"})
    wait_for(lambda: get(f"http://127.0.0.1:{port}/readyz").status == 200, 20, lambda: serve.stderr)
    job = spool.add('{"id": 7}', "--name", "hooks", "--attempts-made", "3")  # not due for minutes
    entry = spool.entries[0] | {"nextRetry": 1, "timestamp": 1}
    lock = ["flock", tmp_path / "hooks.jsonl.lock", "sh", "-c", f"echo '{json.dumps(entry | {'jobId': 'due'})}' >> {spool.path}"]
    subprocess.run(lock, check=True)
    wait_for(lambda: receiver.count() == 1, 20, lambda: serve.stderr)
    assert receiver.calls[0].body == {"id": 7, "idempotencyKey": "due"}
    assert receiver.calls[0].headers["authorization"] == "Bearer s3cret"
    wait_for(lambda: [entry["state"] for entry in spool.entries] == ["pending", "resolved"], 20, lambda: spool.entries)
    counted = 'spool_attempts_total{result="resolved",spool="hooks"} 1'
    wait_for(lambda: counted in get(f"http://127.0.0.1:{port}/metrics").text, 20, "the attempt to be counted")
    old = spool.entries[1] | {"jobId": "old", "resolvedAt": 1}
    subprocess.run([*lock[:-1], f"echo '{json.dumps(old)}' >> {spool.path}"], check=True)
    wait_for(lambda: [entry["jobId"] for entry in spool.entries] == [job, "due"], 20, lambda: spool.entries)
    serve.terminate()
    assert serve.wait() == 0, serve.stderr
    assert "s3cret" not in serve.stderr
    assert receiver.count() == 1


def test_serve_reports_an_unwritable_file_once_and_recovers(spool, receiver, programs, tmp_path):
    port = free_port()
    receiver.answer_with(lambda call: Answer(200, {}))
    other = SpoolFile(programs, receiver, tmp_path / "other.jsonl")
    due = {"state": "pending", "nextRetry": 1, "attemptsMade": 1}
    spool.append(spool.exhausted("late", **due))
    (tmp_path / "link").hardlink_to(spool.path)
    how = "allow_private: true, retry_seconds: 0.1"
    (tmp_path / "deliverd.yaml").write_text(f"server: {{ port: {port} }}\nspools:\n  hooks: {{ path: hooks.jsonl, {how} }}\n"
                                            f"  other: {{ path: other.jsonl, {how} }}\n")
    serve = programs.start("serve")
    reported = "spool: a run failed"
    serve.wait_for_stderr(reported)
    for round_of_the_other in range(1, 6):
        other.append(spool.exhausted(f"job-{round_of_the_other}", **due))
        wait_for(lambda: receiver.count() == round_of_the_other, 20, lambda: serve.stderr)
    (line,) = [json.loads(line) for line in serve.stderr.splitlines() if reported in line]
    assert (line["level"], line["spool"], line["code"]) == ("error", "hooks", "spool_linked")
    assert "hard link" in line["error"]
    (tmp_path / "link").unlink()
    wait_for(lambda: spool.states() == {"late": "resolved"}, 20, lambda: serve.stderr)

    def retried():
        """The log line follows the change of the file."""
        lines = [json.loads(line) for line in serve.stderr.splitlines() if "spool: retried" in line]
        return [line for line in lines if line["spool"] == "hooks"]

    wait_for(retried, 20, lambda: serve.stderr)
    assert {"total": 1, "resolved": 1, "failed": 0, "exhausted": 0, "rejected": 0}.items() <= retried()[0].items()
    serve.terminate()
    assert serve.wait() == 0
    assert serve.stderr.count(reported) == 1
