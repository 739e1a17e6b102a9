"""Programs that our packages do not install. ./dev prepares them if the machine has what they need."""

import os
import shutil

import pytest

from harness.process import ROOT

NODE_MODULES = ROOT / "build" / "node" / "node_modules"
GO_EXAMPLE = ROOT / "build" / "go" / "events"


def _prepared(path, *needed):
    """The path, created by ./dev test. If it could not be created, the test is skipped by name."""
    if not path.exists():
        for name in needed:
            if shutil.which(name) is None:
                pytest.skip(f"{name} is not on this machine")
        raise RuntimeError(f"{path} is not there: ./dev test makes it")
    return path


def node_program(source, folder):
    """The command that runs one of our modules, which is copied to the folder with its packages."""
    modules = _prepared(NODE_MODULES, "node", "npm")
    os.symlink(modules, folder / "node_modules")
    return ["node", shutil.copy(source, folder)]


def go_example():
    return [_prepared(GO_EXAMPLE, "go")]


def helm_program():
    """The program that renders, lints and decodes the chart (tools/helm)."""
    folder = os.environ.get("DELIVERD_HELM")
    if folder is None:
        raise RuntimeError("DELIVERD_HELM is not set: ./dev test builds Helm and sets it")
    if not os.path.exists(os.path.join(folder, "complete")):
        pytest.skip("Helm was not built, so the chart was not rendered: " + (
            "./dev could not build it" if shutil.which("go") else "it is built with go, which is not on this machine"))
    return os.path.join(folder, "chart")
