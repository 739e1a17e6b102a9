"""The Helm chart, rendered by Helm's own packages (tools/helm)."""

import copy
import json
import subprocess
from dataclasses import dataclass

import yaml

from harness.process import ROOT
from harness.runtimes import helm_program

CHART = ROOT / "deploy" / "helm" / "deliverd"
HELM_DEADLINE_SECONDS = 240
KUBERNETES = "1.27.0"  # the oldest that the chart is for
TOKEN_SHA256 = "ab" * 32

# The minimum a release needs.
LEAST = {
    "kafka": {"brokers": ["kafka-0:9092"]},
    "config": {"auth": {"tokens": [{"name": "ops", "role": "operator", "sha256": TOKEN_SHA256}]},
               "database": {"host": "db", "name": "app", "user": "app"}},
}


def with_value(values, path, value):
    """A copy of the values with one of them changed: with_value(v, "kafka.enabled", False)."""
    changed = copy.deepcopy(values)
    *parents, last = path.split(".")
    place = changed
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place.setdefault(name, {})
    place[int(last) if isinstance(place, list) else last] = value
    return changed


def helm(*words, stdin=""):
    return subprocess.run([helm_program(), *map(str, words)], input=stdin, capture_output=True, text=True,
                          timeout=HELM_DEADLINE_SECONDS)


@dataclass
class Rendered:
    """The manifests of a release called `r`."""

    text: str

    def all(self):
        return [document for document in yaml.safe_load_all(self.text) if document]

    def kinds(self):
        return sorted(document["kind"] for document in self.all())

    def of(self, kind, name=None):
        (found,) = [document for document in self.all()
                    if document["kind"] == kind and name in (None, document["metadata"]["name"])]
        return found

    def pod(self):
        return self.of("Deployment")["spec"]["template"]

    def container(self):
        (found,) = self.pod()["spec"]["containers"]
        return found

    def config_text(self, name="r-deliverd"):
        return self.of("ConfigMap", name)["data"]["config.yaml"]

    def config(self, name="r-deliverd"):
        return yaml.safe_load(self.config_text(name))


def _template(values):
    return helm("template", "r", CHART, KUBERNETES, stdin=json.dumps(values))


def render(values):
    done = _template(values)
    assert done.returncode == 0, done.stderr
    return Rendered(done.stdout)


def refusal(values):
    """Helm's message for values that it must refuse."""
    done = _template(values)
    assert done.returncode != 0, f"rendered all the same:\n{done.stdout}"
    return done.stderr


def decode(text):
    """The kinds of the manifests, each decoded strictly as its Kubernetes type."""
    done = helm("decode", stdin=text)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.split())
