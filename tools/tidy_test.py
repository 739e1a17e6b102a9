#!/usr/bin/env python3
"""Proves with the real clang-tidy that tools/tidy.py reuses a verdict when, and only when, nothing it depends on changed."""

import contextlib
import io
import json
import os
import shutil
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import tidy

FINDING = "inline int* Nothing() { return 0; }\n"
CONFIGURATION = "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\nHeaderFilterRegex: '/(src|include)/'\n"


class TidyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        self.root, self.cache = self.top / "one", self.top / "cache"
        self.write(".clang-tidy", CONFIGURATION)
        self.write("src/low/text.h", "inline int Length() { return 1; }\n")
        self.write("src/low/clock.h", "inline int Now() { return 2; }\n")
        self.write("src/a.cc", '#include <low/text.h>\nint A() { return Length(); }\n')
        self.write("src/b.cc", '#include "low/clock.h"\nint B() { return Now(); }\n')
        self.write("src/a_test.cc", FINDING)
        self.write("tests/tool.cc", FINDING)
        self.write_database()
        # Timestamps may lag behind the clock but never lead it, so what a test writes is older than the run after it.
        self.patch("CLOCK_TICK_SECONDS", 0)

    def patch(self, name, value):
        patch = mock.patch.object(tidy, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def write_database(self, flags="", names=("src/a.cc", "src/b.cc", "src/a_test.cc", "tests/tool.cc", "src/a.cc")):
        command = f"g++ -I{self.root}/include -I{self.root}/src -std=c++20 {flags} -o x.o -c {self.root}"
        entries = [{"directory": f"{self.root}/build", "command": f"{command}/{name}", "file": f"{self.root}/{name}"}
                   for name in names]
        self.write("build/compile_commands.json", json.dumps(entries))

    def write_program(self, script):
        self.write("program", f"#!/bin/sh\n[ \"$1\" = --version ] && exec clang-tidy-19 --version\n{script}\n")
        (self.root / "program").chmod(0o755)
        return str(self.root / "program")

    def run_tidy(self, *options):
        output, summary = io.StringIO(), self.top / "summary.json"
        summary.unlink(missing_ok=True)
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            self.status = tidy.main(["--root", str(self.root), "--database", str(self.root / "build"), "--jobs", "2",
                                     "--cache", str(self.cache), "--summary", str(summary), *options])
        self.output = output.getvalue()
        self.counts = json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else None

    def assert_clean(self, cached, analysed):
        self.run_tidy()
        self.assertEqual(self.output, f"clang-tidy: {cached + analysed} files, {cached} unchanged since a clean run, "
                                      f"{analysed} analysed, 0 with findings\n")
        self.assertEqual(self.status, 0)
        self.assertEqual(self.counts, {"files": cached + analysed, "cached": cached, "analysed": analysed,
                                       "findings": 0, "failed": 0})

    def assert_finding(self, where, cached=1, analysed=1):
        self.run_tidy()
        self.assertIn(where, self.output)
        self.assertIn("[modernize-use-nullptr", self.output)
        self.assertNotIn("generated", self.output)
        self.assertNotIn("\n. ", self.output)
        self.assertEqual((self.counts["cached"], self.counts["analysed"], self.counts["findings"]), (cached, analysed, 1))
        self.assertEqual(self.status, 1)

    def test_a_clean_source_is_analysed_once(self):
        self.assert_clean(cached=0, analysed=2)
        self.assert_clean(cached=2, analysed=0)

    def test_finding_in_the_source_on_every_run(self):
        self.assert_clean(cached=0, analysed=2)
        self.write("src/a.cc", FINDING)
        self.assert_finding("src/a.cc:1:")
        self.assert_finding("src/a.cc:1:")

    def test_finding_in_an_included_header_on_every_run(self):
        self.assert_clean(cached=0, analysed=2)
        self.write("src/low/text.h", "inline int Length() { return 1; }\n" + FINDING)
        self.assert_finding("src/low/text.h:2:")
        self.assert_finding("src/low/text.h:2:")

    def test_the_working_directory_does_not_matter(self):
        (self.top / ".clang-tidy").write_text("HeaderFilterRegex: 'nothing'\n", encoding="utf-8")
        self.write("src/low/text.h", "inline int Length() { return 1; }\n" + FINDING)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.top)
        self.assert_finding("src/low/text.h:2:", cached=0, analysed=2)

    def test_a_warning_that_is_no_error_counts(self):
        self.write(".clang-tidy", CONFIGURATION.replace("'*'", "''"))
        self.write("src/a.cc", FINDING)
        self.assert_finding("src/a.cc:1:", cached=0, analysed=2)
        self.assert_finding("src/a.cc:1:")

    def test_verdicts_for_two_states_of_a_header_are_both_kept(self):
        before = (self.root / "src/low/text.h").read_text(encoding="utf-8")
        self.assert_clean(cached=0, analysed=2)
        self.write("src/low/text.h", before + "// changed\n")
        self.assert_clean(cached=1, analysed=1)
        self.write("src/low/text.h", before)
        self.assert_clean(cached=2, analysed=0)

    def test_changed_configuration(self):
        self.write(".clang-tidy", CONFIGURATION.replace("use-nullptr", "use-override"))
        self.write("src/a.cc", FINDING)
        self.assert_clean(cached=0, analysed=2)
        self.write(".clang-tidy", CONFIGURATION)
        self.assert_finding("src/a.cc:1:", cached=0, analysed=2)

    def test_nearer_configuration(self):
        self.write("src/a.cc", FINDING)
        self.write("src/.clang-tidy", CONFIGURATION.replace("use-nullptr", "use-override"))
        self.assert_clean(cached=0, analysed=2)
        (self.root / "src/.clang-tidy").unlink()
        self.assert_finding("src/a.cc:1:", cached=0, analysed=2)

    def test_configuration_that_cannot_be_parsed(self):
        self.write(".clang-tidy", "Chekcs: '*'\n")
        self.run_tidy()
        self.assertIn("unknown key 'Chekcs'", self.output)
        self.assertTrue(self.output.endswith("0 with findings, 2 failed\n"), self.output)
        self.assertEqual(self.status, 1)

    def test_changed_flags(self):
        self.write("src/a.cc", f"#ifdef WRONG\n{FINDING}#endif\n")
        self.assert_clean(cached=0, analysed=2)
        self.write_database("-DWRONG")
        self.assert_finding("src/a.cc:2:", cached=0, analysed=2)

    def test_changed_version(self):
        self.assert_clean(cached=0, analysed=2)
        program = self.write_program('exec clang-tidy-19 "$@"')
        self.run_tidy("--program", program)
        self.assertEqual(self.counts["cached"], 2)
        self.write("program", '#!/bin/sh\n[ "$1" = --version ] && exec echo 99\nexec clang-tidy-19 "$@"\n')
        self.run_tidy("--program", program)
        self.assertEqual(self.counts["analysed"], 2)

    def test_a_second_checkout_hits(self):
        self.assert_clean(cached=0, analysed=2)
        first, self.root = self.root, self.top / "elsewhere/two"
        shutil.copytree(first, self.root)
        self.write_database()
        shutil.rmtree(first)
        self.assert_clean(cached=2, analysed=0)
        self.write("src/low/clock.h", "inline int Now() { return 2; }\n" + FINDING)
        self.assert_finding("src/low/clock.h:2:")

    def test_a_new_header_that_hides_an_included_one(self):
        self.assert_clean(cached=0, analysed=2)
        self.write("include/low/other.h", FINDING)
        self.assert_clean(cached=2, analysed=0)
        self.write("include/low/text.h", "inline int Length() { return 1; }\n" + FINDING)
        self.assert_finding("include/low/text.h:2:")

    def test_what_the_list_of_includes_cannot_show_is_not_cached(self):
        self.write("src/a.cc", '#if __has_include("low/new.h")\n#include "low/new.h"\n#endif\n')
        self.assert_clean(cached=0, analysed=2)
        self.assert_clean(cached=1, analysed=1)
        self.write_database(f"-include {self.root}/src/low/text.h", names=["src/b.cc"])
        self.assert_clean(cached=0, analysed=1)
        self.assert_clean(cached=0, analysed=1)

    def test_a_header_that_changes_during_the_analysis(self):
        self.assert_clean(cached=0, analysed=2)  # from here on, every file is older than a tick of the clock
        self.patch("CLOCK_TICK_SECONDS", 0.01)
        self.cache = self.top / "fresh"
        header = self.root / "src/low/text.h"
        change = f'case "$*" in *a.cc) echo "{FINDING.strip()}" >>{header} ;; esac'
        self.run_tidy("--program", self.write_program(f'clang-tidy-19 "$@"\n{change}'))
        self.assertEqual((self.status, self.counts["analysed"]), (0, 2), self.output)
        self.assert_finding("src/low/text.h:2:")

    def test_damaged_cache(self):
        self.assert_clean(cached=0, analysed=2)
        manifests = list(self.cache.glob("*/*"))
        self.assertEqual(len(manifests), 2)
        for damage in (lambda whole: b"", lambda whole: b"[]", lambda whole: whole[:-9],
                       lambda whole: whole[:30] + whole[31:]):
            for manifest in manifests:
                manifest.write_bytes(damage(manifest.read_bytes()))
            self.assert_clean(cached=0, analysed=2)
            self.assert_clean(cached=2, analysed=0)

    def test_cache_that_cannot_be_written(self):
        self.cache.write_text("not a folder", encoding="utf-8")
        self.assert_clean(cached=0, analysed=2)
        self.assert_clean(cached=0, analysed=2)

    def test_the_cache_is_bounded(self):
        self.assert_clean(cached=0, analysed=2)
        old = next(self.cache.glob("*/*"))
        long_ago = time.time() - (tidy.UNUSED_DAYS + 1) * 86400
        os.utime(old, (long_ago, long_ago))
        self.assert_clean(cached=2, analysed=0)  # a hit counts as use
        os.utime(old, (long_ago, long_ago))
        tidy.prune(self.cache)
        self.assertFalse(old.parent.exists())
        self.assert_clean(cached=1, analysed=1)
        self.patch("MAX_MANIFESTS", 1)
        tidy.prune(self.cache)
        self.assertEqual(len(list(self.cache.glob("*"))), 1)

    def test_source_that_does_not_compile(self):
        self.write("src/a.cc", '#include "low/missing.h"\n')
        self.run_tidy()
        self.assertIn("'low/missing.h' file not found", self.output)
        self.assertEqual((self.status, self.counts["findings"]), (1, 1))

    def test_program_that_crashes(self):
        self.run_tidy("--program", self.write_program("kill -9 $$"))
        self.assertIn("src/a.cc: clang-tidy failed with exit status -9", self.output)
        self.assertEqual((self.status, self.counts["failed"]), (1, 2))
        self.assert_clean(cached=0, analysed=2)

    def test_program_that_hangs(self):
        self.patch("FILE_DEADLINE_SECONDS", 0.1)
        self.run_tidy("--program", self.write_program("exec tail -f /dev/null"))
        self.assertIn("timed out after 0.1 seconds", self.output)
        self.assertEqual((self.status, self.counts["failed"]), (1, 2))

    def test_program_that_is_not_there(self):
        self.run_tidy("--program", "clang-tidy-0")
        self.assertIn("tidy: cannot run clang-tidy-0: ", self.output)
        self.assertIn("./dev setup", self.output)
        self.assertEqual(self.status, 1)

    def test_database_that_is_not_there(self):
        (self.root / "build/compile_commands.json").unlink()
        self.run_tidy()
        self.assertIn("compile_commands.json", self.output)
        self.assertIn("./dev build", self.output)
        self.assertEqual(self.status, 2)

    def test_database_of_another_checkout(self):
        self.run_tidy("--root", str(self.top / "two"))
        self.assertIn("lists no source below", self.output)
        self.assertEqual(self.status, 2)

    def test_wrong_usage(self):
        for options in (["--jobs", "0"], ["--unknown"]):
            with self.subTest(options), self.assertRaises(SystemExit) as exited:
                self.run_tidy(*options)
            self.assertEqual(exited.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
