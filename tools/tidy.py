#!/usr/bin/env python3
"""Runs clang-tidy on every source of the project except tests. Skips a source that is unchanged since a clean run.

    tools/tidy.py --database BUILD_DIR [--jobs N] [--cache DIR] [--program clang-tidy-19] [--summary FILE] [--root DIR]

Exit status: 0 clean; 1 findings, or clang-tidy failed; 2 wrong usage. The cache holds clean verdicts only, so findings
are reported on every run. It works like ccache's direct mode: CACHE/key/state is a manifest, the list of the files that
clang included. `key` covers source, flags, configuration and version; `state` covers the contents of the listed files.
Paths are stored relative to the checkout, so a fresh clone elsewhere hits. The cache does not notice a new system header
if only a system header's __has_include looks for it.
"""

import argparse
import collections
import concurrent.futures
import gzip
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

FORMAT = 1  # of key, state and manifest; raise it when their meaning changes
FILE_DEADLINE_SECONDS = 600
PROGRESS_SECONDS = 30
UNUSED_DAYS = 30
MAX_MANIFESTS = 5000
CLOCK_TICK_SECONDS = 0.01  # a file's timestamp may lag behind time.time() by one kernel tick
NOISE = re.compile(r"\d+ (warning|error)s?( and \d+ errors?)? generated\.")
INCLUDED = re.compile(r"\.+ (.+)")  # a line of clang's -H
INCLUDE_FOLDER = re.compile(r"(?:^|\0)-(?:I|isystem|iquote|idirafter)\0?([^\0]+)")
UNLISTED_INPUT = ("-include", "--include", "-imacros", "@", "-fmodule", "-fplugin")  # they read files that -H does not list
SEARCH_PATHS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")


def digest(*parts):
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=20).hexdigest()


def arguments_of(entry):
    return entry.get("arguments") or shlex.split(entry["command"])


class Project:
    """The sources to analyse, and the state of every file that a verdict depends on."""

    def __init__(self, root, build, version):
        self.root, self.build, self.version = os.path.abspath(root), os.path.abspath(build), version
        self.started = time.time() - CLOCK_TICK_SECONDS
        self.hashes = {}
        self.database = os.path.join(self.build, "compile_commands.json")
        self.entries = collections.defaultdict(list)  # by source; clang-tidy analyses a source once per entry
        for entry in json.loads(Path(self.database).read_text(encoding="utf-8")):
            source = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
            name = os.path.relpath(source, self.root)
            if not name.startswith(("build", "..", "tests")) and not name.endswith("_test.cc"):
                self.entries[source].append(entry)
        self.namesakes = self.files_by_name()

    def files_by_name(self):
        """The files that an #include can find, by last name. A new header can hide an included one only if both have
        the same last name, so a state also covers the list of the included files' namesakes."""
        folders = {"/usr/local/include"} | {os.path.dirname(source) for source in self.entries}
        for entry in (entry for entries in self.entries.values() for entry in entries):
            for folder in INCLUDE_FOLDER.findall("\0".join(arguments_of(entry))):
                folders.add(os.path.normpath(os.path.join(entry["directory"], folder)))
        found = collections.defaultdict(set)
        for parent, children, names in (step for folder in folders for step in os.walk(folder)):
            children[:] = [child for child in children if child[0] != "." and os.path.join(parent, child) != self.build]
            for name in names:
                found[name].add(self.portable(os.path.join(parent, name)))
        return {name: sorted(paths) for name, paths in found.items()}

    def portable(self, text):
        text = re.sub(re.escape(self.build) + r"(?![\w.-])", "{build}", text)
        return re.sub(re.escape(self.root) + r"(?![\w.-])", "{root}", text)

    def hash_of(self, path):
        """None for a file that cannot be read, or that is ours and uses __has_include: -H does not list what that looks for."""
        if path not in self.hashes:
            try:
                content = Path(path).read_bytes()
                asks = path.startswith(self.root + "/") and b"__has_include" in content
                self.hashes[path] = None if asks else hashlib.blake2b(content, digest_size=20).hexdigest()
            except OSError:
                self.hashes[path] = None
        return self.hashes[path]

    def configurations(self, source):
        return [str(folder / ".clang-tidy") for folder in Path(source).parents if (folder / ".clang-tidy").is_file()]

    def key(self, source):
        flags = [self.portable(json.dumps(entry, sort_keys=True)) for entry in self.entries[source]]
        configurations = [self.hash_of(file) for file in self.configurations(source)]
        environment = [os.environ.get(name) for name in SEARCH_PATHS]
        return digest(FORMAT, self.version, self.portable(source), self.hash_of(source), flags, configurations, environment)

    def state(self, files):
        """None when a file has no hash. `files` are portable paths."""
        hashes = [self.hash_of(file.replace("{build}", self.build).replace("{root}", self.root)) for file in files]
        namesakes = [self.namesakes.get(os.path.basename(file)) for file in files]
        return None if None in hashes else digest(files, hashes, namesakes)

    def dependencies(self, source, included):
        """The source and the files it included, as portable paths. Empty when they are not fully known, or when one
        changed after this run started: clang-tidy may have read other content than was hashed."""
        entries = self.entries[source]
        folders = {entry["directory"] for entry in entries}
        flags = [argument for entry in entries for argument in arguments_of(entry)]
        if len(folders) > 1 or any(flag.startswith(UNLISTED_INPUT) for flag in flags):
            return []
        files = [source] + sorted({os.path.join(*folders, path) for path in included})
        try:
            times = [os.stat(file).st_ctime for file in [self.database, *self.configurations(source), *files]]
        except OSError:
            return []
        return [self.portable(file) for file in files] if max(times) < self.started else []


def is_clean(cache, project, source):
    try:
        manifests = list((cache / project.key(source)).iterdir())
    except OSError:
        return False
    for manifest in manifests:
        try:
            if project.state(json.loads(gzip.decompress(manifest.read_bytes()))) == manifest.name:
                os.utime(manifest)
                return True
        except (OSError, EOFError, ValueError, zlib.error):
            pass  # damaged, just removed by another run, or a cache that is not ours: analyse again
    return False


def store_clean(cache, project, source, included):
    files = project.dependencies(source, included)
    state = project.state(files)
    if not files or not state:
        return
    folder = cache / project.key(source)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(gzip.compress(json.dumps(files).encode()))
        os.replace(file.name, folder / state)
    except OSError:
        pass  # works without a cache


def prune(cache):
    try:
        manifests = sorted(((path.stat().st_mtime, path) for path in cache.glob("*/*")), reverse=True)
        for number, (used, path) in enumerate(manifests):
            if number >= MAX_MANIFESTS or used < time.time() - UNUSED_DAYS * 86400:
                path.unlink()
                if not any(path.parent.iterdir()):
                    path.parent.rmdir()
    except OSError:
        pass  # another run prunes too, or the cache is not ours


def analyse(program, project, source):
    """Returns "clean", "findings" or "failed"; the text to show; the files that clang included."""
    command = [program, "-p", project.build, "--quiet", "--extra-arg=-H", source]
    try:  # in the root, because clang-tidy takes HeaderFilterRegex from the .clang-tidy of its working directory
        run = subprocess.run(command, cwd=project.root, capture_output=True, check=False, encoding="utf-8", errors="replace",
                             timeout=FILE_DEADLINE_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "failed", f"tidy: {source}: {error}\n", []
    lines = run.stderr.splitlines()
    included = [found.group(1) for found in map(INCLUDED.fullmatch, lines) if found]
    messages = "".join(f"{line}\n" for line in lines if not INCLUDED.fullmatch(line) and not NOISE.fullmatch(line))
    if run.returncode in (0, 1) and run.stdout.strip():
        return "findings", run.stdout + messages, included
    if run.returncode == 0 and not messages:  # for a .clang-tidy that it cannot parse, clang-tidy exits with 0 and a message
        return "clean", "", included
    return "failed", f"{run.stdout}{messages}tidy: {source}: clang-tidy failed with exit status {run.returncode}\n", included


def analyse_all(options, project, sources):
    """Analyses `sources` in parallel, prints the findings and returns the number of sources per verdict."""
    counts, shown = collections.Counter(), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        try:
            running = {pool.submit(analyse, options.program, project, source): source for source in sources}
            for future in concurrent.futures.as_completed(running):
                verdict, text, included = future.result()
                counts[verdict] += 1
                print(text, end="", flush=True)
                if verdict == "clean":
                    store_clean(options.cache, project, running[future], included)
                if time.monotonic() - shown > PROGRESS_SECONDS:
                    shown = time.monotonic()
                    print(f"clang-tidy: {counts.total()} of {len(sources)} files analysed", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return counts


def parse(arguments):
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "deliverd", "tidy")
    parser = argparse.ArgumentParser(prog="tools/tidy.py", description="Run clang-tidy on the sources that changed.")
    parser.add_argument("--database", metavar="BUILD_DIR", required=True, help="folder of compile_commands.json")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count() or 1, help="files analysed at a time")
    parser.add_argument("--cache", metavar="DIR", type=Path, default=cache, help="default: %(default)s")
    parser.add_argument("--program", default="clang-tidy-19", help="default: %(default)s")
    parser.add_argument("--summary", metavar="FILE", type=Path, help="write the counts to this file as JSON")
    parser.add_argument("--root", metavar="DIR", default=Path(__file__).resolve().parent.parent, help="default: %(default)s")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: use at least 1")
    if "/" in options.program:
        options.program = os.path.abspath(options.program)
    return options


def report(options, files, analysed, counts):
    findings, failed = counts["findings"], counts["failed"]
    if options.summary:
        summary = {"files": files, "cached": files - analysed, "analysed": analysed, "findings": findings, "failed": failed}
        options.summary.write_text(json.dumps(summary) + "\n", encoding="utf-8")
    print(f"clang-tidy: {files} files, {files - analysed} unchanged since a clean run, {analysed} analysed, "
          f"{findings} with findings" + (f", {failed} failed" if failed else ""))
    return 1 if findings or failed else 0


def refuse(status, message):
    print(f"tidy: {message}", file=sys.stderr)
    return status


def main(arguments):
    options = parse(arguments)
    try:
        version = subprocess.run([options.program, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        return refuse(1, f"cannot run {options.program}: {error}; ./dev setup installs clang-tidy-19")
    try:
        project = Project(options.root, options.database, version)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return refuse(2, f"cannot read the compile database: {error}; ./dev build writes it to build/")
    if not project.entries:
        return refuse(2, f"{project.database} lists no source below {project.root}; run ./dev build in this checkout")
    changed = [source for source in project.entries if not is_clean(options.cache, project, source)]
    changed.sort(key=lambda source: os.path.getsize(source) if os.path.isfile(source) else 0, reverse=True)
    counts = analyse_all(options, project, changed)
    prune(options.cache)
    return report(options, len(project.entries), len(changed), counts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
