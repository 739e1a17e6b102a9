"""Checks of the Dockerfile that need no container engine. `docker build` itself is not tested."""

import re
import shutil
import subprocess
from pathlib import Path

from harness.process import ROOT, program

DOCKERFILE = (ROOT / "Dockerfile").read_text()
BASE_ONLY = {"ca-certificates"}  # for whom no library speaks


def output_of(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True, timeout=240).stdout


def final_stage():
    return DOCKERFILE.rpartition("\nFROM ")[2]


def installed_packages():
    (listed,) = re.findall(r"--no-install-recommends \\\n(.*?) && \\\n", final_stage(), re.DOTALL)
    return set(listed.replace("\\", "").split())


def package_of(library):
    """The Debian package that owns a library file. With merged /usr the package may list it under either path."""
    resolved = Path(library).resolve()
    for path in (resolved, Path("/") / resolved.relative_to("/usr") if resolved.is_relative_to("/usr") else resolved):
        found = subprocess.run(["dpkg-query", "--search", str(path)], capture_output=True, text=True, timeout=240)
        if found.returncode == 0:
            return found.stdout.partition(":")[0]
    raise AssertionError(f"{library} belongs to no package")


def libraries():
    """Name and file of every library that the program loads, directly or indirectly."""
    return dict(re.findall(r"^\s*(\S+) => (\S+) \(", output_of("ldd", program("deliverd")), re.MULTILINE))


def with_dependencies(packages):
    """The packages and their dependencies, from this machine's package database."""
    seen, waiting = set(), list(packages)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        found = subprocess.run(["dpkg-query", "-W", "-f", "${Depends}, ${Pre-Depends}", name], capture_output=True, text=True,
                               timeout=240)
        if found.returncode == 0:
            seen.add(name)
            waiting += re.findall(r"(?:^|[,|]\s*)([a-z0-9][a-z0-9.+-]+)", found.stdout)
    return seen


def test_the_image_has_the_libraries_the_program_links():
    where = libraries()
    named = re.findall(r"\(NEEDED\)\s+Shared library: \[(.+?)\]", output_of("readelf", "-d", program("deliverd")))
    assert "libpq.so.5" in named
    wanted = {package_of(where[name]) for name in named if not name.startswith("ld-linux")}
    assert installed_packages() - BASE_ONLY == wanted


def test_the_image_has_indirect_libraries_too():
    wanted = {package_of(path) for path in libraries().values()}
    assert len(wanted) > len(installed_packages()), "there are such"
    assert wanted <= with_dependencies(installed_packages())


def test_it_runs_unprivileged_and_has_a_health_check():
    user, = re.findall(r"^USER (\d+):(\d+)$", final_stage(), re.MULTILINE)
    values = (ROOT / "deploy/helm/deliverd/values.yaml").read_text()
    assert user == tuple(re.findall(r"^runAs(?:User|Group): (\d+)$", values, re.MULTILINE))
    assert int(user[0]) > 0
    assert "HEALTHCHECK" not in DOCKERFILE


def test_its_label_has_the_programs_version(programs):
    version = programs.run("--version").ok().stdout.split()[-1]
    assert f'org.opencontainers.image.version="{version}"' in final_stage()


def test_both_stages_are_the_same_debian():
    assert re.findall(r"^FROM \$\{(\w+)\}", DOCKERFILE, re.MULTILINE) == ["BUILD_BASE", "RUN_BASE"]
    assert re.findall(r"^ARG (\w+)=debian:(\d+)", DOCKERFILE, re.MULTILINE) == [("BUILD_BASE", "12"), ("RUN_BASE", "12")]


def test_the_page_shows_how_to_pin_the_bases():
    """The names of the arguments; `docker build` ignores one that it does not know with a warning only."""
    named = re.findall(r"--build-arg (\w+)=(\S+)@sha256:", (ROOT / "docs/kubernetes.md").read_text())
    assert named == re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE)


def test_the_build_context_is_enough_to_configure(tmp_path):
    """.dockerignore excludes everything except a list. CMake globs, so a missing folder fails here."""
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for name in sent:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules", "*.db"))
        else:
            shutil.copy2(source, tmp_path / name)
    done = subprocess.run(["cmake", "--preset", "release", "-DDELIVERD_BATCHES=OFF"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = output_of("ninja", "-C", tmp_path / "build", "-t", "commands", "deliverd")
    assert "src/cli/main.cc" in wanted
    assert sent.count("LICENSE") == 1 and "COPY LICENSE " in DOCKERFILE
