#!/usr/bin/env python3
"""Checks the rules of the repository that no compiler checks. `./dev lint` and ctest run it; tools/lint_test.py
proves each rule with a bad example.

    tools/lint.py [ROOT]      prints `file:line: problem`, one per line; exit status 1 if there is a problem
"""

import re
import subprocess
import sys
from pathlib import Path

MAX_SOURCE_LINES = 500
MAX_PAGE_COLUMNS = 100
SOURCES = (".cc", ".h", ".py", ".cmake")

POSTGRES = {f"store/postgres{room}" for room in ("", "/connection", "/letters", "/events", "/queues")}
SQLITE = {f"store/sqlite{room}" for room in ("", "/file", "/letters", "/events", "/queues")}

# Third-party headers and the rooms that may see them; "*" is every room. A header that is not listed is refused.
THIRD_PARTY = {
    "libpq-fe.h": {"client", "wal", *POSTGRES},
    "sqlite3.h": {"client", *SQLITE},
    "curl/": {"sink/http"},
    "librdkafka/": {"sink/kafka", "deadletter/kafka"},
    "nats/": {"sink/nats"},
    "amqp": {"sink/rabbitmq"},
    "boost/asio": {"http"},
    "boost/beast": {"http"},
    "boost/json": {"*"},
    "boost/system": {"*"},
    "boost/url": {"*"},
    "CLI/": {"cli"},
    "yaml-cpp/": {"config"},
    "prometheus/": {"metrics"},
    "openssl/": {"base", "http", "sink/rabbitmq"},
    "fmt/": {"*"},
    "tl/expected.hpp": {"*"},
    "pqxx/": set(),
}
# What a room's tests may also see.
THIRD_PARTY_OF_TESTS = {"openssl/": {"sink/http"}, "pqxx/": {"store/postgres/events"}}
TEST_ONLY = ("gtest/", "gmock/", "rapidcheck")
POSIX = re.compile(r"(sys|arpa|netinet|net|linux)/\w+\.h|(unistd|malloc|fcntl|signal|poll|netdb|termios|pthread|pwd|errno"
                   r"|stdlib|string|time|dirent|ifaddrs|getopt|limits|spawn|sched|endian)\.h")
STANDARD = re.compile(r"[a-z_0-9]+")
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')

# Written in two halves so that this file follows its own rules.
REMINDERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE_PATHS = re.compile(r"(?<![\w./$}~-])/(wo" r"rk|ro" r"ot|ho" r"me)(?=/|\b(?![\w-]))")
SLEEPS = re.compile(r"\b(sleep" r"_for|sleep" r"_until|usleep|nanosleep|sleep)\s*\(")
SWITCHED_OFF = re.compile(r"\bDISABLED" r"_\w|\bGTEST_SK" r"IP\b|\bpytest\.(sk" r"ip|importorsk" r"ip|xf" r"ail)\b"
                          r"|\bmark\.(sk" r"ip|sk" r"ipif|xf" r"ail)\b|\bunittest\.sk" r"ip|@sk" r"ip\w*\(")
# Where a test may be skipped by name, with the reason: a Kafka broker whose jars are unavailable, a runtime that
# none of our Debian packages installs, files of several users without root.
MAY_LEAVE_OUT = {"tests/harness/kafka.py", "src/sink/kafka/testing/broker.h", "tests/harness/runtimes.py",
                 "tests/harness/root.py", "src/spool/testing/root.h"}


class Repository:
    """The files to look at, relative to `root`, and the rooms."""

    def __init__(self, root):
        self.root = Path(root)
        self.files = sorted(self._files())
        self.rooms, self.tests_use = {}, {}
        self._read_rooms()

    def _files(self):
        listed = subprocess.run(["git", "-C", str(self.root), "ls-files", "-z", "-co", "--exclude-standard"],
                                capture_output=True, check=False)
        if listed.returncode == 0:
            names = (Path(name) for name in listed.stdout.decode().split("\0") if name)
        else:  # an archive without its history
            names = (path.relative_to(self.root) for path in self.root.rglob("*"))
        for name in names:
            if name.parts[0] not in ("build", ".git") and (self.root / name).is_file():
                yield name.as_posix()

    def _read_rooms(self):
        for line in self.lines("tools/rooms.txt"):
            if line.strip() and not line.startswith("#"):
                room, _, uses = line.partition(":")
                if room.endswith(" tests"):
                    self.tests_use[room.removesuffix(" tests")] = uses.split()
                else:
                    self.rooms[room.strip()] = uses.split()

    def text(self, name):
        try:
            return (self.root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a picture
            return ""

    def lines(self, name):
        return self.text(name).splitlines()

    def room_of(self, path):
        """The room that contains a path below src/, its folder testing/ included; None if there is none."""
        folder = path.rpartition("/")[0].removesuffix("/testing")
        return folder if folder in self.rooms else None


def is_test(name):
    """Tests, what they share, and the conformance suites of the ports."""
    return name.endswith("_test.cc") or name.startswith(("tests/", "src/store/conformance/")) or "/testing/" in name


def check_length(repository):
    for name in repository.files:
        count = len(repository.lines(name)) if name.endswith(SOURCES) or Path(name).name == "dev" else 0
        if count > MAX_SOURCE_LINES:
            yield f"{name}:{count}: {count} lines; a source has at most {MAX_SOURCE_LINES}: split it by task"


# Parts of a Markdown line that are never wrapped: inline code and pictures.
UNWRAPPED = re.compile(r"`[^`]*`|!\[[^\]]*\]\([^)]*\)")


def check_pages(repository):
    """Documentation wraps at MAX_PAGE_COLUMNS, except tables, code, and lines that have no place to wrap."""
    for name in repository.files:
        if not name.endswith(".md") or name.rpartition("/")[0] not in ("", "docs"):
            continue
        in_code = False
        for number, line in enumerate(repository.lines(name), 1):
            if line.lstrip().startswith("```"):
                in_code = not in_code
            elif not in_code and len(line) > MAX_PAGE_COLUMNS and not line.lstrip().startswith("|"):
                if len(UNWRAPPED.sub("x", line).lstrip(" -*").split()) > 1:
                    yield f"{name}:{number}: {len(line)} columns; wrap documentation at {MAX_PAGE_COLUMNS}"


def check_patterns(repository):
    for name in repository.files:
        for number, line in enumerate(repository.lines(name), 1):
            where = f"{name}:{number}"
            if found := REMINDERS.search(line):
                yield f"{where}: {found.group()}: do it now, or open an issue"
            if found := MACHINE_PATHS.search(line):
                yield f"{where}: {found.group()}: a path that exists only on one machine"
            if not is_test(name):
                continue
            if found := SLEEPS.search(line):
                yield f"{where}: {found.group()}…): tests do not sleep; wait for a condition with a deadline"
            if name not in MAY_LEAVE_OUT and (found := SWITCHED_OFF.search(line)):
                yield f"{where}: {found.group()}: a disabled test proves nothing: fix it or remove it"


def check_rooms_file(repository):
    rooms = repository.rooms
    for room, uses in [*rooms.items(), *repository.tests_use.items()]:
        for used in [room, *uses]:
            if used not in rooms:
                yield f"tools/rooms.txt:1: {room}: {used} is not a room"
    done, path = set(), []

    def walk(room):
        if room in path:
            return [*path[path.index(room):], room]
        if room in done:
            return None
        path.append(room)
        for used in rooms.get(room, []):
            if circle := walk(used):
                return circle
        path.pop()
        done.add(room)
        return None

    for room in rooms:
        if circle := walk(room):
            yield f"tools/rooms.txt:1: dependency cycle of rooms: {' -> '.join(circle)}"
            return


def includes_of(repository, name):
    """(line number, quoted header or None, <header> or None) for each #include."""
    for number, line in enumerate(repository.lines(name), 1):
        if found := INCLUDE.match(line):
            yield number, found.group(1), found.group(2)


def third_party_problem(name, room, header):
    """The reason why `name` in `room` may not include `header`; None if it may."""
    if header.startswith(TEST_ONLY):
        return None if is_test(name) else f"<{header}> is only for tests"
    for prefix, rooms in THIRD_PARTY.items():
        if header.startswith(prefix):
            in_test = is_test(name) and room in THIRD_PARTY_OF_TESTS.get(prefix, ())
            allowed = "*" in rooms or room in rooms or in_test
            others = ", ".join(sorted(rooms))
            return None if allowed else f"<{header}> may be used only in {others}; {room} must use a header of these rooms"
    if STANDARD.fullmatch(header) or POSIX.fullmatch(header):
        return None
    return f"<{header}> is not in THIRD_PARTY: add it in tools/lint.py with the rooms that may use it"


def check_includes(repository):
    for name in repository.files:
        if not name.endswith((".cc", ".h")) or not name.startswith(("src/", "include/deliverd/", "examples/")):
            continue
        example = name.startswith("examples/")
        public = example or name.startswith("include/")
        room = name.rpartition("/")[0] if public else repository.room_of(name.removeprefix("src/"))
        if room is None:
            yield f"{name}:1: is in no room of tools/rooms.txt"
            continue
        allowed = set() if public else {room, *repository.rooms[room]}
        if is_test(name):
            allowed |= set(repository.tests_use.get(room, ()))
        for number, quoted, angled in includes_of(repository, name):
            where = f"{name}:{number}"
            if angled and not example:
                if problem := third_party_problem(name, room, angled):
                    yield f"{where}: {problem}"
            elif quoted and not quoted.startswith("deliverd/"):
                target = repository.room_of(quoted)
                if "/testing/" in quoted and not is_test(name):
                    yield f'{where}: "{quoted}" is only for tests'
                elif target is None:
                    yield f'{where}: "{quoted}" does not name a room: write "room/file.h"'
                elif target not in allowed:
                    yield f'{where}: {room} may not use {target} ("{quoted}"); tools/rooms.txt lists what it may use'


STATEMENT = re.compile(r"-- (name|part): ([a-z][a-z0-9_]*)")


def check_statements(repository):
    """Statements in src/ROOM/sql/*.sql (CONTRIBUTING.md, "SQL") are used in code, and parts by a statement of the same file."""
    used = set()
    for name in repository.files:
        if name.endswith((".cc", ".h")) and name.startswith("src/") and not is_test(name):
            room = (repository.room_of(name.removeprefix("src/")) or "").rpartition("/")[2]
            for space, statement in re.findall(r"\b(?:(\w+)::)?sql::(\w+)", repository.text(name)):
                used.add((space or room, statement))
    for name in repository.files:
        folder, _, file = name.removeprefix("src/").rpartition("/sql/")
        if not name.startswith("src/") or not file.endswith(".sql"):
            continue
        if folder not in repository.rooms:
            yield f"{name}:1: is in no room of tools/rooms.txt"
        for number, line in enumerate(repository.lines(name), 1):
            found = STATEMENT.fullmatch(line)
            if not found:
                if re.match(r"-- *(name|part):", line):
                    yield f'{name}:{number}: write "-- name: lower_case" and nothing after it'
            elif found[1] == "part" and f"{{{found[2]}}}" not in repository.text(name):
                yield f"{name}:{number}: no statement of this file uses {{{found[2]}}}"
            elif found[1] == "name" and (folder.rpartition("/")[2], found[2]) not in used:
                yield f"{name}:{number}: nothing uses sql::{found[2]}"


def unit_of(name):
    """The common path of a header and its source: without the file ending."""
    return name.rpartition(".")[0]


def check_own_header_first(repository):
    """A source includes its own header first, so that the compiler finds what the header does not include. Headers
    without a source are compiled alone (tools/CMakeLists.txt)."""
    for name in repository.files:
        if not name.startswith("src/") or not name.endswith(".cc"):
            continue
        own = unit_of(name) + ".h"
        if own in repository.files:
            first = next((quoted or angled for _, quoted, angled in includes_of(repository, name)), None)
            if first != own.removeprefix("src/"):
                yield f'{name}:1: include its own header "{own.removeprefix("src/")}" first'


def check_unit_cycles(repository):
    """Sources and headers of a room never include each other in a cycle, directly or indirectly."""
    names = [name for name in repository.files if name.startswith("src/") and name.endswith((".cc", ".h")) and not is_test(name)]
    units = {unit_of(name) for name in names}
    uses = {unit: {} for unit in units}
    for name in names:
        for number, quoted, _ in includes_of(repository, name):
            if quoted and (used := unit_of("src/" + quoted)) in units and used != unit_of(name):
                uses[unit_of(name)].setdefault(used, f"{name}:{number}")
    done, path = set(), []

    def walk(unit):
        if unit in path:
            yield [*path[path.index(unit):], unit]
        if unit in done or unit in path:
            return
        path.append(unit)
        for used in uses[unit]:
            yield from walk(used)
        path.pop()
        done.add(unit)

    for unit in sorted(units):
        for circle in walk(unit):
            shown = " -> ".join(step.removeprefix("src/") for step in circle)
            yield f"{uses[circle[-2]][circle[-1]]}: include cycle: {shown}; move what both need to a separate header"


def check_python(repository):
    for name in repository.files:
        if name.endswith(".py"):
            try:
                compile(repository.text(name), name, "exec")
            except SyntaxError as error:
                yield f"{name}:{error.lineno}: {error.msg}"


CHECKS = (check_length, check_pages, check_patterns, check_rooms_file, check_includes, check_statements,
          check_own_header_first, check_unit_cycles, check_python)


def problems_in(root):
    repository = Repository(root)
    return [problem for check in CHECKS for problem in check(repository)]


def main(arguments):
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    problems = problems_in(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
