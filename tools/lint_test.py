#!/usr/bin/env python3
"""Proves every rule of tools/lint.py with a bad example, and test_totals.py with small result files."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import lint
import test_totals

ROOMS = ("base:\nstore: base\nstore/postgres/connection: base store\nstore/conformance: base store\n"
         "store/postgres: base store\nlane: base store\n")


class LintTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("tools/rooms.txt", ROOMS)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def assert_clean(self):
        self.assertEqual(lint.problems_in(self.root), [])

    def assert_problem(self, *parts):
        problems = lint.problems_in(self.root)
        self.assertEqual(len(problems), 1, problems)
        for part in parts:
            self.assertIn(part, problems[0])

    def test_a_tidy_repository_is_clean(self):
        self.write("src/lane/lane.cc", '#include <unistd.h>\n\n#include <vector>\n\n#include "lane/lane.h"\n'
                                       '#include "store/outbox.h"\n#include "deliverd/result.h"\n')
        self.write("src/store/postgres/connection/pool.cc", "#include <libpq-fe.h>\n")
        self.write("src/lane/lane_test.cc", '#include <gtest/gtest.h>\n#include <rapidcheck/gtest.h>\n')
        self.write("src/store/conformance/lease.h", "#include <gmock/gmock.h>\n")
        self.write("include/deliverd/result.h", "#include <tl/expected.hpp>\n")
        self.write("tests/test_x.py", "def test_x(db):\n    db.execute('SELECT pg_sleep(5)')\n")
        self.write("docs/readme.md", "See /workers and $HOME/.cache, http://host/root-cause and mktemp /tmp/x.XXXXXX\n")
        self.assert_clean()

    def test_statements_are_used(self):
        self.write("src/lane/sql/lane.sql", "-- part: held\nselect 1\n-- name: find\n-- a comment\n{held}\n")
        self.write("src/lane/lane.cc", '#include "lane/statements.h"\nauto text = sql::find;\n')
        self.assert_clean()
        self.write("src/lane/lane.cc", "auto text = sql::find_all;\n")
        self.assert_problem("src/lane/sql/lane.sql:3:", "sql::find")

    def test_parts_of_statements_are_used(self):
        self.write("src/lane/sql/lane.sql", "-- part: held\nselect 1\n")
        self.assert_problem("src/lane/sql/lane.sql:1:", "{held}")

    def test_names_of_statements(self):
        self.write("src/lane/sql/lane.sql", "-- name: Find\nselect 1\n")
        self.assert_problem("src/lane/sql/lane.sql:1:", "lower_case")

    def test_pages_wrap_at_100_columns(self):
        long = "word " * 21
        code = "`" + long + "`"
        self.write("docs/page.md", f"| {long} |\n\n```\n{long}\n```\n- {code}\n![{long}](x.svg)\n{'x' * 101}\n")
        self.write("web/README.md", long + "\n")
        self.assert_clean()
        for page in ("docs/page.md", "README.md"):
            with self.subTest(page):
                self.write(page, f"```\n```\n{long}\n")
                self.assert_problem(f"{page}:3:", "105 columns", "wrap documentation at 100")
                (self.root / page).unlink()

    def test_forbidden_room(self):
        self.write("src/lane/lane.cc", '#include "store/postgres/postgres.h"\n')
        self.assert_problem("src/lane/lane.cc:1:", "lane may not use store/postgres")

    def test_nothing_points_upward(self):
        self.write("src/base/log.h", '\n#  include "lane/lane.h"\n')
        self.assert_problem("src/base/log.h:2:", "base may not use lane")

    def test_public_headers_use_no_room(self):
        self.write("include/deliverd/lease.h", '#include "base/clock.h"\n')
        self.assert_problem("include/deliverd may not use base")

    def test_examples_use_only_public_headers(self):
        self.write("examples/events.cc", '#include <libpq-fe.h>\n#include "deliverd/result.h"\n')
        self.assert_clean()
        self.write("examples/events.cc", '#include "base/text.h"\n')
        self.assert_problem("examples/events.cc:1:", "examples may not use base")

    def test_tests_keep_the_boundaries_too(self):
        self.write("src/store/outbox_test.cc", '#include "lane/lane.h"\n')
        self.assert_problem("store may not use lane")

    def test_what_only_tests_may_use(self):
        self.write("tools/rooms.txt", "base:\nhttp: base\nsink/http: base\nsink/http tests: http\n")
        self.write("src/sink/http/sink_test.cc", '#include "http/server.h"\n#include "sink/http/testing/tls.h"\n')
        self.write("src/sink/http/testing/tls.h", "#include <openssl/ssl.h>\n#include <gtest/gtest.h>\n")
        self.assert_clean()
        for include, problem in (('"http/server.h"', "sink/http may not use http"),
                                 ("<openssl/ssl.h>", "may be used only in base"),
                                 ('"sink/http/testing/tls.h"', "is only for tests")):
            with self.subTest(include):
                self.write("src/sink/http/sink.cc", f"#include {include}\n")
                self.assert_problem("src/sink/http/sink.cc:1:", problem)

    def test_third_party_header_out_of_its_room(self):
        self.write("src/lane/lane.cc", "#include <libpq-fe.h>\n")
        self.assert_problem("<libpq-fe.h> may be used only in client, store/postgres")

    def test_unknown_third_party_header(self):
        self.write("src/lane/lane.cc", "#include <zmq.hpp>\n")
        self.assert_problem("<zmq.hpp> is not in THIRD_PARTY")

    def test_test_library_outside_tests(self):
        self.write("src/lane/lane.cc", "#include <gtest/gtest.h>\n")
        self.assert_problem("is only for tests")

    def test_include_without_a_room(self):
        self.write("src/lane/lane.cc", '#include "lane.h"\n')
        self.assert_problem('"lane.h" does not name a room')

    def test_relative_include(self):
        self.write("src/lane/lane.cc", '#include "../store/postgres/postgres.h"\n')
        self.assert_problem("does not name a room")

    def test_folder_that_is_no_room(self):
        self.write("src/cellar/wine.cc", "\n")
        self.assert_problem("src/cellar/wine.cc:1:", "is in no room")

    def test_rooms_in_a_cycle(self):
        self.write("tools/rooms.txt", "base: lane\nstore: base\nlane: store\n")
        self.assert_problem("base -> lane -> store -> base")

    def test_a_source_includes_its_own_header_first(self):
        self.write("src/lane/lane.h", "#pragma once\n")
        self.write("src/lane/lane.cc", '#include <vector>\n\n#include "lane/lane.h"\n')
        self.assert_problem("src/lane/lane.cc:1:", 'own header "lane/lane.h" first')
        self.write("src/lane/lane.cc", '#include "lane/lane.h"\n\n#include <vector>\n')
        self.assert_clean()

    def test_units_that_include_each_other(self):
        self.write("src/lane/lane.h", '#include "lane/options.h"\n')
        self.write("src/lane/options.cc", '#include "lane/options.h"\n')
        self.write("src/lane/options.h", "#pragma once\n")
        self.assert_clean()
        self.write("src/lane/options.cc", '#include "lane/options.h"\n#include "lane/lane.h"\n')
        self.assert_problem("include cycle", "lane/lane -> lane/options -> lane/lane")

    def test_units_that_include_each_other_indirectly(self):
        self.write("src/lane/a.h", '#include "lane/b.h"\n')
        self.write("src/lane/b.h", '#include "lane/c.h"\n')
        self.write("src/lane/c.h", "\n")
        self.assert_clean()
        self.write("src/lane/c.h", '#include "lane/a.h"\n')
        self.assert_problem("src/lane/c.h:1:", "lane/a -> lane/b -> lane/c -> lane/a")

    def test_a_test_may_include_both_sides(self):
        self.write("src/lane/a.h", "\n")
        self.write("src/lane/a_test.cc", '#include "lane/a.h"\n#include "lane/testing/b.h"\n')
        self.write("src/lane/testing/b.h", '#include "lane/a.h"\n')
        self.assert_clean()

    def test_unknown_room_in_the_table(self):
        self.write("tools/rooms.txt", "base:\nlane: base attic\n")
        self.assert_problem("lane: attic is not a room")

    def test_length(self):
        self.write("src/lane/long.cc", "\n" * lint.MAX_SOURCE_LINES)
        self.assert_clean()
        self.write("src/lane/long.cc", "\n" * (lint.MAX_SOURCE_LINES + 1))
        self.assert_problem("src/lane/long.cc:501:")

    def test_reminders(self):
        for word in ("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"):
            with self.subTest(word):
                self.write("docs/notes.md", f"fine\n{word}: later\n")
                self.assert_problem("docs/notes.md:2:", word)

    def test_machine_paths(self):
        for path in ("/wo" "rk/tree", "/ro" "ot/.ssh", '"/ho' 'me/someone"', "cd /wo" "rk"):
            with self.subTest(path):
                self.write("src/lane/lane.cc", f"// {path}\n")
                self.assert_problem("a path that exists only on one machine")

    def test_sleeps_in_tests(self):
        for name, text in (("src/lane/lane_test.cc", "std::this_thread::sleep" "_for(1s);\n"),
                           ("src/lane/lane_test.cc", "::usleep(5);\n"), ("tests/test_x.py", "time.sleep" "(1)\n"),
                           ("tests/harness/x.py", "sleep" "(1)\n"), ("tests/x.cc", "std::this_thread::sleep" "_until(t);\n")):
            with self.subTest(text):
                self.write(name, text)
                self.assert_problem(name, "tests do not sleep")
                (self.root / name).unlink()

    def test_tests_switched_off(self):
        for name, text in (("src/lane/lane_test.cc", "TEST(Lane, DISABLED" "_Works) {}\n"),
                           ("src/lane/lane_test.cc", "GTEST_SK" "IP();\n"), ("tests/test_x.py", "@pytest.mark.sk" "ip\n"),
                           ("tests/test_x.py", "import pytest\npytest.sk" "ip('later')\n"),
                           ("tests/test_x.py", "@mark.xf" "ail\n")):
            with self.subTest(text):
                self.write(name, text if name.endswith(".cc") or "import" in text else text + "def test_x(): pass\n")
                self.assert_problem(name, "proves nothing")
                (self.root / name).unlink()

    def test_only_what_is_named_may_leave_tests_out(self):
        for name in sorted(lint.MAY_LEAVE_OUT):
            self.write(name, "GTEST_SK" "IP()\n" if name.endswith(".h") else "pytest.sk" "ip('no broker')\n")
        self.write("tools/rooms.txt", ROOMS + "sink/kafka: base\nspool: base\n")
        self.assert_clean()

    def test_a_missing_runtime_leaves_tests_out(self):
        text = "import pytest\npytest.sk" "ip('no such runtime')\n"
        self.write("tests/harness/runtimes.py", text)
        self.assert_clean()
        self.write("tests/harness/process.py", text)
        self.assert_problem("tests/harness/process.py:2:", "proves nothing")

    def test_python_syntax(self):
        self.write("bench/run.py", "def broken(:\n")
        self.assert_problem("bench/run.py:1:")


class TotalsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def totals(self, *texts, options=()):
        paths = []
        for number, text in enumerate(texts):
            paths.append(self.root / f"{number}.xml")
            if text is not None:
                paths[-1].write_text(text, encoding="utf-8")
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            status = test_totals.main([*options, *map(str, paths)])
        return out.getvalue(), status

    def test_adds_up_both_kinds(self):
        ctest = ('<testsuite><testcase name="a" status="run"/><testcase name="b" status="run"/>'
                 '<testcase name="c" status="disabled"><skipped/></testcase></testsuite>')
        pytest = '<testsuites><testsuite><testcase name="d"/><testcase name="e"><skipped/></testcase></testsuite></testsuites>'
        self.assertEqual(self.totals(ctest, pytest), ("3 passed, 0 failed, 2 skipped\n", 0))

    def test_failures_and_errors_fail(self):
        for case in ('<testcase status="fail"><failure/></testcase>', "<testcase><failure/></testcase>",
                     "<testcase><error/></testcase>"):
            out, status = self.totals(f"<testsuite><testcase/>{case}</testsuite>")
            self.assertEqual((out.splitlines()[-1], status), ("1 passed, 1 failed, 0 skipped", 1))

    def test_failures_are_named_with_the_end_of_their_output(self):
        ctest = ('<testsuite><testcase classname="room/A.b" name="room/A.b" status="fail"><failure message=""/>'
                 '<system-out>a_test.cc:12: Failure\nExpected: 1</system-out></testcase></testsuite>')
        pytest = ('<testsuite><testcase classname="test_x" name="y">'
                  '<failure>before\n\nE 1\n</failure></testcase></testsuite>')
        out, _ = self.totals(ctest, pytest)
        lines = [line.strip() for line in out.splitlines()]
        self.assertEqual(lines[1:3], ["a_test.cc:12: Failure", "Expected: 1"])
        self.assertTrue(lines[0].startswith("failed: room/A.b "), lines[0])
        self.assertTrue(lines[3].startswith("failed: test_x.y "), lines[3])
        self.assertEqual(lines[4:], ["before", "E 1", "0 passed, 2 failed, 0 skipped"])

    def test_a_missing_or_incomplete_file_fails(self):
        self.assertEqual(self.totals("<testsuite><testcase/></testsuite>", None), ("1 passed, 1 failed, 0 skipped\n", 1))
        self.assertEqual(self.totals("<testsuite><testc"), ("0 passed, 1 failed, 0 skipped\n", 1))

    def test_a_flaky_test_is_named_and_fails_the_run(self):
        failed = '<testsuite><testcase classname="s" name="x"><failure/></testcase></testsuite>'
        for again, word in (('<testcase classname="s" name="x"/>', "flaky"), ('<testcase classname="s" name="y"/>', "failed"),
                            ('<testcase classname="s" name="x"><failure/></testcase>', "failed")):
            (self.root / "0-again.xml").write_text(f"<testsuite>{again}</testsuite>", encoding="utf-8")
            out, status = self.totals(failed)
            self.assertTrue(out.startswith(f"{word}: s.x "), out)
            self.assertEqual((out.splitlines()[-1], status), ("0 passed, 1 failed, 0 skipped", 1))

    def test_the_slowest_come_first(self):
        out, _ = self.totals('<testsuite><testcase name="a" time="0.5"/><testcase name="b" time="7"/>'
                             '<testcase name="c" time="2"/></testsuite>', options=("--slowest", "2"))
        lines = out.splitlines()
        self.assertEqual([line.split()[:3] for line in lines[1:-1]], [["7.0", "s", "b"], ["2.0", "s", "c"]])

    def test_a_missing_file_may_be_allowed(self):
        one = "<testsuite><testcase/></testsuite>"
        self.assertEqual(self.totals(None, options=("--may-be-missing",)), ("0 passed, 0 failed, 0 skipped\n", 1))
        self.assertEqual(self.totals(one, None, options=("--may-be-missing",)), ("1 passed, 0 failed, 0 skipped\n", 0))

    def test_no_test_at_all_fails(self):
        self.assertEqual(self.totals("<testsuite/>"), ("0 passed, 0 failed, 0 skipped\n", 1))


if __name__ == "__main__":
    unittest.main()
