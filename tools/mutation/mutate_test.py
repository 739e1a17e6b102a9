#!/usr/bin/env python3
"""Proves with the real compiler that tools/mutation finds the mutants it should, runs each as itself, and counts them right."""

import contextlib
import io
import json
import os
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path
from unittest import mock

import mutants
import mutate

COMPILER = ["clang++-19", "-std=c++20", "-w"]
CODE = """#include <compare>
extern "C" int printf(const char*, ...);
namespace deliverd {
enum class Kind { good, bad, ugly };
constexpr int kLimit = 4;
template <typename T> T max(T a, T b) { return a < b ? b : a; }
template <typename T> T min(T a, T b) { return b < a ? b : a; }
struct Size { int n = 0; auto operator<=>(const Size&) const = default; };
struct Half { bool has = false; int n = 0; explicit operator bool() const { return has; } };
Half half(int n) { if (n % 2 == 1) return {}; return {true, n / 2}; }
Kind kind_of(int n) {
    switch (n) {
        case 3: return Kind::ugly;
        default: break;
    }
    if (const auto found = half(n)) return Kind::good;
    return Kind::bad;
}
int sum(int n, Size size) {
    int total = 0;
    for (int i = 0; i < kLimit; ++i) {
        if (i == 2 && n > 7 && size != Size{1}) continue;
        total += max(i,  // the larger one
                     n);
    }
    const auto negative = [&] { return total <= -3 || !(size < Size{9}); };
    if (negative()) { total = -total; }
    return total;
}
}  // namespace deliverd
"""
MAIN = """
int main() {
    using namespace deliverd;
    for (int n = -4; n < 10; ++n) printf("%d %d %d ", sum(n, Size{n % 3}), sum(n, Size{n + 8}), int(kind_of(n)));
}
"""
PRODUCT = """#include "low.h"
namespace deliverd {
bool small(int n) { return n < 10; }
int twice(int n) {
    int last = 0;
    while (last < n) last = last + 1;
    return last * 2 + 0;
}
}
"""
TESTS = """#include "low.h"
#include <unistd.h>
int main() { return deliverd::small(3) && deliverd::large(12) && deliverd::twice(4) == 8 ? 0 : 1; }
"""
NINJA = """rule cc
 command = clang++-19 -std=c++20 -I{root} -O1 -c $in -o $out
rule ar
 command = rm -f $out && ar rcs $out $in
rule link
 command = : && clang++-19 $in -o $out && :
build low.o: cc batch.cxx
build test.o: cc {root}/src/low/test.cc
build low.a: ar low.o
build low_test: link test.o low.a
"""


class MutantsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def mutants(self, code):
        path = self.folder / "code.cc"
        path.write_text(code, encoding="utf-8")
        self.source = mutants.read_source(path)
        return mutants.mutants_of(COMPILER, path)

    def changes(self, line):
        """The mutants of one line of code in a function, as changed lines."""
        code = f"namespace deliverd {{\nenum class E {{ a, b }}; struct Log {{ void warn(const char*); }};\n\n" \
               f"int f(int a, int b, E e, Log log_, int* o) {{\n{line}\nreturn 0; }} }}\n"
        found = [mutant.lines(self.source) for mutant in self.mutants(code)]
        return sorted(mutants.readable(after) for number, _, after in found if number == 5)

    def test_each_rule(self):
        for line, expected in (
                ("a = b;", ["void();"]),
                ("if (a < b) { ++a; --b; }", ["if (a <= b) { ++a; --b; }", "if (a < b) { ++a; void(); }",
                                             "if (a < b) { void(); --b; }", "if (false) { ++a; --b; }",
                                             "if (true) { ++a; --b; }"]),
                ("e = E::b;", ["e = E::a;", "void();"]),
                ("for (;;) break;", ["for (;;) void();"]),
                ("if (auto n = o) a = *n;", ["if (auto n = o; false && bool(n)) a = *n;"]),
                ("switch (a) { case 1: case 2: ; }", ["switch (a) { case 1: ; }", "switch (a) { case 2: ; }"]),
                ("return a ? b : -1;", ["return a ? b : -0;", "return a ? b : -2;", "return a ? b : 1;", "return false ? b : -1;",
                                        "return true ? b : -1;", "return {};"]),
        ):
            self.assertEqual(self.changes(line), sorted(expected), line)

    def test_nothing_where_no_test_should_look(self):
        for line in ('log_.warn("a is 3");', "static_assert(1 < 2);", "int c = a;",
                     'const char* text; text = "said …";', "// a < b"):
            self.assertEqual(self.changes(line), [], line)

    def test_all_together_behave_as_each_alone(self):
        found = list(enumerate(self.mutants(CODE), 1))
        (self.folder / "prefix.h").write_text(mutate.PREFIX, encoding="utf-8")
        (self.folder / "switch.cc").write_text(mutate.SWITCH, encoding="utf-8")
        subprocess.run([*COMPILER, "-c", "switch.cc"], cwd=self.folder, check=True)
        switched = self.program(mutants.switchable(self.source, [each for each in found if not each[1].constant]))
        outputs = set()
        for number, mutant in found:
            alone = self.output(self.program(mutant.of(self.source), f"alone{number}"), 0)
            outputs.add(alone)
            if not mutant.constant:
                self.assertEqual(self.output(switched, number), alone, mutant)
        self.assertGreater(len(found), 60)
        self.assertGreater(len(outputs), 20)

    def program(self, code, stem="all"):
        path = self.folder / stem
        path.with_suffix(".cc").write_text(code + MAIN, encoding="latin-1")
        subprocess.run([*COMPILER, "-include", self.folder / "prefix.h", path.with_suffix(".cc"), self.folder / "switch.o", "-o",
                        path], check=True)
        return path

    def output(self, program, number):
        environment = {**os.environ, "DELIVERD_MUTANT": str(number)}
        done = subprocess.run([program], env=environment, capture_output=True, check=False)
        return done.returncode, done.stdout


class MutateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.build = self.root / "build"
        self.write("src/low/low.cc", PRODUCT)
        self.write("src/low/other.cc", "namespace deliverd { bool large(int n) { return !small(n); } }\n")
        self.write("src/low/test.cc", TESTS)
        self.write("low.h", "namespace deliverd { bool small(int n); bool large(int n); int twice(int n); }\n")
        self.write("build/build.ninja", NINJA.format(root=self.root))
        batch = self.build / "batch.cxx"
        self.write("build/batch.cxx", f'#include "{self.root}/src/low/low.cc"\n#include "{self.root}/src/low/other.cc"\n')
        self.write("build/compile_commands.json", json.dumps([{
            "directory": str(self.build), "file": str(batch),
            "command": f"clang++-19 -std=c++20 -I{self.root} -O1 -o low.o -c {batch}"}]))
        self.write("targets.toml", '[low]\nfiles = ["low.cc"]\ntests = ["low_test"]\n')
        self.write("survivors.txt", "# what may survive\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run_tool(self, *options):
        output, progress = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(progress), \
                mock.patch.object(mutate, "FOLDER", self.root), mock.patch.object(mutate, "NINJA_OUTPUT", subprocess.DEVNULL), \
                mock.patch.object(mutate, "LEAST_CPU_SECONDS", 1):
            self.status = mutate.main(["low", "--root", str(self.root), "--build", str(self.build), "--jobs", "2", *options])
        self.output, self.progress = output.getvalue(), progress.getvalue()
        results = json.loads((self.build / "mutate/low/results.json").read_text(encoding="utf-8"))
        return {(result["before"], result["after"]): result["verdict"] for result in results}

    def test_verdicts_then_kept_then_explained(self):
        small, verdicts = "bool small(int n) { return n < 10; }", self.run_tool()
        self.assertEqual(verdicts[small, small.replace("<", ">=")], "killed")
        self.assertEqual(verdicts[small, small.replace("<", "<=")], "survived")
        self.assertEqual(verdicts[small, small.replace("10", "11")], "survived")
        loop, value = "while (last < n) last = last + 1;", "return last * 2 + 0;"
        self.assertEqual(verdicts[loop, loop.replace("last = last + 1", "void()")], "timed out")
        self.assertEqual(verdicts[value, value.replace("+", "-")], "equivalent")
        self.assertEqual(self.status, 1)
        self.assertIn("src/low/low.cc:3\n- " + small, self.output)

        self.assertEqual(self.run_tool(), verdicts)
        self.assertIn("mutants, 0 to run", self.progress)

        survivors = [(before, after) for (before, after), verdict in verdicts.items() if verdict == "survived"]
        pairs = "".join(f"- {before}\n+ {after}\n" for before, after in survivors)
        self.write("survivors.txt", f"src/low/low.cc\n{pairs}The bound is another's.\n")
        self.run_tool()
        self.assertEqual(self.status, 0)
        self.assertIn("| 0.0 % |", self.output)

        self.write("src/low/test.cc", TESTS.replace("12", "10"))  # the test that was missing
        self.assertEqual(self.run_tool()[small, small.replace("<", "<=")], "killed")

    def test_a_sample_is_the_same_again(self):
        first = self.run_tool("--sample", "3", "--seed", "7")
        self.assertEqual(len(first), 3)
        self.assertEqual(self.run_tool("--sample", "3", "--seed", "7"), first)

    def test_quick_tests_run_first_and_slow_ones_last(self):
        def order(only, slow, suites):
            programs = [Path("a"), Path("b")]
            attempts = mutate.Tests(programs, only, {"b": "B.*"}, slow, suites, self.root).attempts(programs)
            return [(program.name, tests) for program, tests in attempts]
        self.assertEqual(order("", "", ["Own"]), [("a", "Own.*"), ("a", ""), ("b", "B.*")])
        self.assertEqual(order("", "Slow.*", ["Own"]), [("a", "Own.*"), ("a", "-Slow.*"), ("b", "B.*"), ("a", "Slow.*")])

    def test_survivors_need_a_reason(self):
        with self.assertRaises(ValueError):
            mutate.read_survivors("a.cc\n- a\n+ b\n")
        self.assertEqual(mutate.read_survivors("a.cc\n- a\n+ b\n- c\n+ d\nwhy,\nreally\n"),
                         {("a.cc", "a", "b"): "why, really", ("a.cc", "c", "d"): "why, really"})

    def test_targets_and_reasons_name_sources_that_exist(self):
        folder = Path(mutate.__file__).resolve().parent
        targets = tomllib.loads((folder / "targets.toml").read_text(encoding="utf-8"))
        sources = [f"src/{room}/{file}" for room, target in targets.items() for file in target["files"]]
        self.assertEqual([source for source in sources if not (folder.parents[1] / source).exists()], [])
        reasons = mutate.read_survivors((folder / "survivors.txt").read_text(encoding="utf-8"))
        self.assertEqual({source for source, _, _ in reasons} - set(sources), set())


if __name__ == "__main__":
    unittest.main()
