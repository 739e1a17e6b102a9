#!/usr/bin/env python3
"""Breaks the decisive code of a room in hundreds of small ways and runs the room's tests on each: `./dev mutate ROOM`.

    tools/mutation/mutate.py ROOM… --build DIR [--file NAME]… [--sample N [--seed N]] [--again] [--quick] [--jobs N] [--root DIR]

A mutant is killed by a failing test, a crash or a timeout. Those that survive are shown, unless tools/mutation/survivors.txt
says why they may. Exit status: 0; 1 when more than 5 % of a room's mutants survive unexplained; 2 wrong usage.
Each source is compiled once with all of its mutants, one of which is switched on in each run of the tests. Verdicts are kept
in DIR/mutate for the same source and tests; when the tests have changed, the test that killed a mutant is tried first.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

from mutants import mutants_of, read_source, readable, switchable

FOLDER = Path(__file__).resolve().parent
NINJA_OUTPUT = sys.stderr
MOST_UNEXPLAINED = 0.05
LEAST_WALL_SECONDS, WALL_FACTOR = 60, 10  # of a run that hangs; the machine may be busy with other things
LEAST_CPU_SECONDS, CPU_FACTOR = 1, 3  # of a run that loops for ever
MEMORY_BYTES = 4 << 30
MOST_ROUNDS = 8  # of leaving out mutants that keep a source from compiling
SIM_SCHEDULES = "20"
MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None  # the tests' files: an fsync of a disk takes most of their time
SAVE_EVERY = 20
VERDICTS = ("killed", "timed out", "survived", "equivalent", "not compiled")
FAILED_TEST = re.compile(r"^\[  FAILED  \] ([\w/.]+\.[\w/]+)", re.MULTILINE)
WRONG_LINE = re.compile(r"^[^:\n]*all\.cc:(\d+):\d+: (?:fatal error|error|note)", re.MULTILINE)
SUITE = re.compile(r"^(?:TEST|TEST_F|TEST_P|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\((\w+),", re.MULTILINE)
SWITCH = """#include <cstdlib>
int deliverd_mutant = 0;
[[gnu::constructor(101)]] static void choose() {
    if (const char* number = std::getenv("DELIVERD_MUTANT")) deliverd_mutant = std::atoi(number);
}
"""
PREFIX = "extern int deliverd_mutant;\n#define DELIVERD_MUTANT(number) (deliverd_mutant == (number))\n"


def say(text):
    print(f"mutate: {text}", file=sys.stderr, flush=True)


def digest(*parts):
    return hashlib.blake2b("\0".join(parts).encode("latin-1", "replace"), digest_size=16).hexdigest()


def read_survivors(text):
    """{(file, line, mutated line): reason}. A block is the file, pairs of lines that begin with - and +, and the reason."""
    reasons = {}
    for block in re.split(r"\n\s*\n", re.sub(r"^#.*\n?", "", text, flags=re.MULTILINE)):
        lines = [line.strip() for line in block.strip().splitlines()]
        befores = [line[2:] for line in lines if line.startswith("- ")]
        afters = [line[2:] for line in lines if line.startswith("+ ")]
        reason = " ".join(line for line in lines[1:] if not line.startswith(("- ", "+ ")))
        if lines and (len(befores) != len(afters) or not befores or not reason):
            raise ValueError(f"survivors.txt: {lines[0]}: a block is a file, pairs of - and + lines, and a reason")
        for before, after in zip(befores, afters):
            reasons[(lines[0], before, after)] = reason
    return reasons


class Build:
    """The build folder: how a source is compiled and a test program linked."""

    def __init__(self, root, folder, jobs):
        self.root, self.folder, self.jobs = root, folder, jobs
        self.links = {}

    def make(self, programs):
        subprocess.run(["ninja", "-C", str(self.folder), "-j", str(self.jobs), *programs], check=True, stdout=NINJA_OUTPUT)
        entries = json.loads((self.folder / "compile_commands.json").read_text(encoding="utf-8"))
        self.entries = {entry["file"]: entry for entry in entries}

    def unit_of(self, path):
        """The file through which the compiler reads `path`: a batch of sources (CMake's unity build), or itself."""
        batches = (name for name in self.entries if name.endswith(".cxx") and os.path.exists(name))
        return next((name for name in batches if f'"{path}"' in Path(name).read_text(encoding="utf-8")), str(path))

    def compiler(self, unit):
        """clang with a unit's flags, without input and output, and without -Werror."""
        words = shlex.split(self.entries[unit]["command"])
        words = words[next(at for at, word in enumerate(words) if re.search(r"(g|clang)\+\+[\w.-]*$", word)) + 1:]
        del words[words.index("-o"):words.index("-o") + 2]
        del words[words.index("-c"):words.index("-c") + 2]
        kept = [word for word in words if not re.match(r"-W|-O|-g", word)]
        return ["clang++-19", *kept, "-O1", "-D_GLIBCXX_ASSERTIONS", "-w", "-Wno-c++11-narrowing", "-Wno-invalid-constexpr"]

    def linker(self, program, objects, output):
        """`objects` come before the archives, so that they replace members of the same name. Not with mold: it sometimes takes
        such a member all the same."""
        if program not in self.links:
            last = self.run(["ninja", "-t", "commands", program]).stdout.splitlines()[-1]
            self.links[program] = next(part for part in last.split(" && ") if f"-o {program}" in part)
        words = [word for word in shlex.split(self.links[program]) if not word.startswith("-fuse-ld=")]
        at = next(at for at, word in enumerate(words) if word.endswith(".a"))
        words[at:at] = [*(str(each) for each in objects), "-Wl,--start-group"]  # unlike mold, ld minds the order of archives
        words.append("-Wl,--end-group")
        words[words.index("-o") + 1] = str(output)
        return words

    def run(self, words, **options):
        return subprocess.run(words, cwd=self.folder, capture_output=True, text=True, errors="replace", check=False, **options)


class Tests:
    """The test programs of one source with its mutants in them."""

    def __init__(self, programs, only, only_in, slow, own_suites, folder):
        self.programs, self.only, self.only_in, self.slow, self.folder = programs, only, only_in, slow, folder
        self.limits = {}
        self.own = ":".join(f"{suite}.*" for suite in own_suites)
        self.quick = False

    def attempts(self, programs):
        """The tests to run for a mutant, in order: the source's own first, which are quick and likely to notice, and the slow
        ones of the first program last."""
        whole = [(program, self.only_in.get(program.name.partition("@")[0], self.only)) for program in programs]
        if self.slow:
            whole = [(programs[0], f"{self.only}-{self.slow}"), *whole[1:], (programs[0], self.slow)]
        if self.own and self.quick:
            return [(programs[0], self.own)]
        return [(programs[0], self.own), *whole] if self.own and self.own != self.only else whole

    def measure(self):
        """Runs the tests without a mutant; they must pass. Their duration sets the time limit."""
        for program, only in self.attempts(self.programs):
            began, cpu = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            verdict, output = self.run(program, 0, only, 600, 600)
            if verdict != "survived":
                raise RuntimeError(f"{program.name} fails without a mutant:\n{output[-3000:]}")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime
            wall = time.monotonic() - began
            limits = (LEAST_WALL_SECONDS + WALL_FACTOR * wall, int(LEAST_CPU_SECONDS + CPU_FACTOR * used))
            self.limits[program.name, only] = limits
            say(f"{program.name} {only}: {wall:.1f} s without a mutant")

    def verdict(self, number, programs, killer):
        """("killed" by a test, "timed out" or "survived", the killer). `programs` in place of the common ones if given."""
        attempts = [(program, only, self.limits[program.name.partition("@")[0], only])
                    for program, only in self.attempts(programs or self.programs)]
        name, _, test = killer.partition(" ")
        again = [(program, test, limits) for program, _, limits in attempts if test and program.name.partition("@")[0] == name]
        for program, only, limits in again[:1] + attempts:
            verdict, output = self.run(program, number, only, *limits)
            if verdict != "survived":
                found = FAILED_TEST.search(output)
                return verdict, f"{program.name.partition('@')[0]} {found.group(1) if found else ''}".strip()
        return "survived", ""

    def run(self, program, number, only, wall_seconds, cpu_seconds):
        scratch = (MEMORY or self.folder) / f"deliverd-mutate-{os.getpid()}-{threading.get_ident()}"
        scratch.mkdir(exist_ok=True)
        environment = {**os.environ, "DELIVERD_MUTANT": str(number), "DELIVERD_SIM_SCHEDULES": SIM_SCHEDULES,
                       "RC_PARAMS": "seed=1", "TMPDIR": str(scratch), "TEST_TMPDIR": str(scratch)}
        words = [str(program), "--gtest_fail_fast", "--gtest_brief=1"] + ([f"--gtest_filter={only}"] if only else [])

        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

        child = subprocess.Popen(words, cwd=scratch, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, errors="replace", start_new_session=True, preexec_fn=limit)
        try:
            output, _ = child.communicate(timeout=wall_seconds)
            verdict = "survived" if child.returncode == 0 else "killed"
            if child.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
                verdict = "timed out"
        except subprocess.TimeoutExpired:
            verdict, output = "timed out", ""
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)  # what the tests started
            except ProcessLookupError:
                pass
            child.wait()
            child.stdout.close()
            shutil.rmtree(scratch, ignore_errors=True)
        return verdict, output


class Source:
    """One source of a room: compiles and links it with its mutants."""

    def __init__(self, build, name, target, scratch, quick=False):
        self.build, self.name, self.programs, self.scratch, self.quick = build, name, target["tests"], scratch, quick
        self.only = target.get("only_of", {}).get(Path(name).name, target.get("only", ""))
        self.only_in, self.slow = target.get("only_in", {}), target.get("slow", "")
        self.path = build.root / name
        self.text = read_source(self.path)
        self.unit = build.unit_of(self.path)
        self.command = build.compiler(self.unit)
        self.mutants = list(enumerate(mutants_of(self.command, self.path), 1))
        self.lines = {number: mutant.lines(self.text) for number, mutant in self.mutants}
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)

    def prepare(self):
        """The programs with every mutant that compiles, the numbers of the others, and the tests."""
        batch = read_source(Path(self.unit)) if self.unit != str(self.path) else f'#include "{self.path}"\n'
        sources = "".join(read_source(Path(source)) for source in re.findall(r'#include "(.*)"', batch))
        includes = "".join(dict.fromkeys(re.findall(r"^#include .*\n", sources, re.MULTILINE)))
        (self.scratch / "prefix.h").write_text(includes + PREFIX, encoding="latin-1")
        (self.scratch / "switch.cc").write_text(SWITCH, encoding="utf-8")
        pch = [*self.command, "-x", "c++-header", str(self.scratch / "prefix.h"), "-o", str(self.scratch / "prefix.pch")]
        self.must(self.build.run(pch))
        self.must(self.build.run([*self.command, "-c", str(self.scratch / "switch.cc"), "-o", str(self.scratch / "switch.o")]))
        self.must(self.compile(batch.replace(f'#include "{self.path}"', ""), "others"))
        together = {number: mutant for number, mutant in self.mutants if not mutant.constant}
        for _ in range(MOST_ROUNDS):
            output = self.compile(switchable(self.text, together.items()), "all")
            if output is None:
                break
            wrong = {int(line) for line in WRONG_LINE.findall(output)}
            together = {number: mutant for number, mutant in together.items() if not wrong & set(self.span(mutant))}
        else:
            together = {}
            self.must(self.compile(self.text, "all"))
        self.code = None if self.quick else self.code_of(self.text, "original")
        apart = [number for number, _ in self.mutants if number not in together]
        suites = {suite for own in self.own_tests() for suite in SUITE.findall(own.read_text(encoding="utf-8"))}
        tests = Tests(self.link("all"), self.only, self.only_in, self.slow, sorted(suites), self.scratch)
        tests.quick = self.quick
        tests.measure()
        return apart, tests

    def own_tests(self):
        """x_test.cc and x_*_test.cc, beside x.cc."""
        return self.path.parent.glob(f"{self.path.stem}*_test.cc")

    def span(self, mutant):
        first = self.text.count("\n", 0, mutant.begin) + 1
        return range(first, first + self.text.count("\n", mutant.begin, mutant.end) + 1)

    def must(self, run):
        if run is not None and (isinstance(run, str) or run.returncode != 0):
            raise RuntimeError(f"{self.name} does not compile:\n{run if isinstance(run, str) else run.stderr}"[:4000])

    def compile(self, text, stem, *options):
        """None, or the compiler's message."""
        source = self.scratch / f"{stem}.cc"
        source.write_bytes(text.encode("latin-1"))
        output = options or ["-c", "-o", str(self.scratch / f"{stem}.o")]
        done = self.build.run([*self.command, "-include-pch", str(self.scratch / "prefix.pch"), str(source), *output])
        return done.stderr or "it failed" if done.returncode != 0 else None

    def link(self, stem):
        programs = []
        for program in self.programs[:1] if self.quick else self.programs:
            output = self.scratch / (program if stem == "all" else f"{program}@{stem}")
            objects = [self.scratch / f"{each}.o" for each in (stem, "others", "switch")]
            self.must(self.build.run(self.build.linker(program, objects, output)))
            programs.append(output)
        return programs

    def code_of(self, text, stem):
        """The optimised code, as assembly; None if it does not compile."""
        output = self.scratch / f"{stem}.s"
        if self.compile(text, stem, "-O2", "-S", "-o", str(output)) is not None:
            return None
        return output.read_text(encoding="latin-1").replace(stem, "")

    def judge(self, number, apart, tests, killer):
        mutant, programs = dict(self.mutants)[number], None
        if number in apart:
            if self.compile(mutant.of(self.text), f"alone-{number}") is not None:
                return "not compiled", ""
            programs = self.link(f"alone-{number}")
        verdict, killer = tests.verdict(number, programs, killer)
        if verdict == "survived" and not self.quick and self.code_of(mutant.of(self.text), f"mutant-{number}") == self.code:
            verdict = "equivalent"
        for left in [*self.scratch.glob(f"*-{number}"), *self.scratch.glob(f"*-{number}.*")]:
            left.unlink()
        return verdict, killer


class Room:
    """Runs the mutants of a room and keeps their verdicts."""

    def __init__(self, name, target, build, reasons):
        self.name, self.target, self.build, self.reasons = name, target, build, reasons
        self.folder = build.folder / "mutate" / name.replace("/", "_")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.kept_file = self.folder / "verdicts.json"
        self.kept = json.loads(self.kept_file.read_text(encoding="utf-8")) if self.kept_file.exists() else {}
        self.lock = threading.Lock()
        self.results = []

    def run(self, files, sample, seed, again, quick):
        self.build.make(self.target["tests"])
        contents = [hashlib.blake2b((self.build.folder / program).read_bytes()).hexdigest() for program in self.target["tests"]]
        sources = [Source(self.build, f"src/{self.name}/{file}", self.target, self.folder / Path(file).stem, quick)
                   for file in files or self.target["files"]]
        every = [(source, number) for source in sources for number, _ in source.mutants]
        chosen = set(random.Random(seed).sample(range(len(every)), min(sample, len(every)))) if sample else range(len(every))
        for source in sources:
            numbers = [number for at, (each, number) in enumerate(every) if each is source and at in chosen]
            self.run_source(source, numbers, digest(source.text, source.only, *contents), again)
        self.save()

    def run_source(self, source, numbers, state, again):
        seen, keys = collections.Counter(), {}
        for number, (_, before, after) in source.lines.items():
            seen[before, after] += 1
            keys[number] = digest(source.name, before, after, str(seen[before, after]))
        kept = {number: self.kept.get(keys[number], {}) for number in numbers}
        left = [number for number in numbers if kept[number].get("state") != state]
        if again:
            left = [number for number in left if kept[number].get("verdict", "survived") == "survived"]
        say(f"{source.name}: {len(numbers)} mutants, {len(left)} to run")
        if left:
            apart, tests = source.prepare()
            with concurrent.futures.ThreadPoolExecutor(self.build.jobs) as pool:
                done = pool.map(lambda number: self.judge(source, number, apart, tests, keys[number], state), left)
                for at, _ in enumerate(done, 1):
                    if at % SAVE_EVERY == 0:
                        say(f"{source.name}: {at} of {len(left)}")
                        self.save()
        for number in numbers:
            line, before, after = source.lines[number]
            verdict = self.kept[keys[number]]
            self.results.append({"file": source.name, "line": line, "before": readable(before), "after": readable(after),
                                 "verdict": verdict["verdict"], "killer": verdict["killer"]})

    def judge(self, source, number, apart, tests, key, state):
        verdict, killer = source.judge(number, apart, tests, self.kept.get(key, {}).get("killer", ""))
        with self.lock:
            finished = not source.quick or verdict != "survived"  # the other tests may still notice it
            self.kept[key] = {"state": state if finished else "", "verdict": verdict, "killer": killer}

    def save(self):
        with self.lock:
            part = self.kept_file.with_suffix(".part")
            part.write_text(json.dumps(self.kept), encoding="utf-8")
            os.replace(part, self.kept_file)

    def report(self):
        """Prints the room's unexplained survivors and returns its counts."""
        counts = collections.Counter(result["verdict"] for result in self.results)
        counts["explained"] = 0
        for result in self.results:
            if result["verdict"] == "survived":
                result["reason"] = self.reasons.get((result["file"], result["before"], result["after"]), "")
                counts["explained"] += bool(result["reason"])
                if not result["reason"]:
                    print(f"{result['file']}:{result['line']}\n- {result['before']}\n+ {result['after']}\n")
        (self.folder / "results.json").write_text(json.dumps(self.results, indent=1), encoding="utf-8")
        return counts


def unexplained_share(counts):
    counted = counts["killed"] + counts["timed out"] + counts["survived"]
    return (counts["survived"] - counts["explained"]) / counted if counted else 0.0


def table(rooms):
    """`rooms` is [(name, counts)]."""
    lines = ["| room | mutants | killed | timed out | survived | explained | unexplained | equivalent | not compiled |",
             "|---|---|---|---|---|---|---|---|---|"]
    for name, counts in rooms:
        cells = [name, sum(counts[verdict] for verdict in VERDICTS), counts["killed"], counts["timed out"], counts["survived"],
                 counts["explained"], f"{100 * unexplained_share(counts):.1f} %", counts["equivalent"], counts["not compiled"]]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines)


def parse(arguments):
    root = FOLDER.parents[1]
    parser = argparse.ArgumentParser(prog="./dev mutate", description="Break decisive code and see which tests notice.")
    parser.add_argument("rooms", metavar="ROOM", nargs="+", help="as in tools/mutation/targets.toml; `all` for every one")
    parser.add_argument("--file", metavar="NAME", action="append", help="only this file of the room; may be given again")
    parser.add_argument("--sample", metavar="N", type=int, default=0, help="only N mutants of the room, drawn with --seed")
    parser.add_argument("--seed", metavar="N", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="only what survived before; other verdicts are taken as they were")
    parser.add_argument("--quick", action="store_true", help="only the tests beside the source, which are to notice nearly all")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count() or 1, help="tests run at a time")
    parser.add_argument("--build", metavar="DIR", type=Path, default=root / "build", help="default: %(default)s")
    parser.add_argument("--root", metavar="DIR", type=Path, default=root)
    return parser, parser.parse_args(arguments)


def main(arguments):
    parser, options = parse(arguments)
    targets = tomllib.loads((FOLDER / "targets.toml").read_text(encoding="utf-8"))
    rooms = list(targets) if options.rooms == ["all"] else options.rooms
    for room in rooms:
        if room not in targets:
            parser.error(f"room '{room}' is not in tools/mutation/targets.toml, which has {', '.join(targets)}")
        for file in options.file or ():
            if file not in targets[room]["files"]:
                parser.error(f"--file {file}: room {room} has {', '.join(targets[room]['files'])}")
    reasons = read_survivors((FOLDER / "survivors.txt").read_text(encoding="utf-8"))
    build = Build(options.root, options.build.resolve(), options.jobs)
    reports = []
    for name in rooms:
        room = Room(name, targets[name], build, reasons)
        room.run(options.file, options.sample, options.seed, options.again, options.quick)
        reports.append((name, room.report()))
    print(table(reports))
    return 1 if any(unexplained_share(counts) > MOST_UNEXPLAINED for _, counts in reports) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
