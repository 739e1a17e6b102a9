"""The Helm chart: Kubernetes and deliverd accept what it renders, every value has an effect, bad values are refused.

Nothing here is applied to a cluster, so the effects of Kubernetes' controllers, Vault's injector and a network plugin are
not tested.
"""

import json
import re

import jsonschema
import pytest
import yaml
from harness.certificates import Authority
from harness.documents import blocks, text_of, with_hashes
from harness.helm import CHART, LEAST, TOKEN_SHA256, decode, helm, refusal, render, with_value
from harness.ports import free_port
from harness.process import ROOT
from harness.waiting import wait_for
from harness.web import get

DLQ_MANAGER = yaml.safe_load((ROOT / "deploy/helm/values-dlq-manager.yaml").read_text())
TOKENS = {"tokens": [{"name": "ops", "role": "operator", "sha256": TOKEN_SHA256}]}
EXAMPLE_CONFIG = yaml.safe_load((ROOT / "src/config/testing/dlq_manager.yaml").read_text())

# The example values that are shipped with the chart.
EXAMPLE_VALUES = {
    "image": {"registry": "harbor.internal.example.com", "repository": "k1s0-system/dlq-manager", "tag": ""},
    "replicaCount": 2,
    "container": {"port": 8080, "grpcPort": None},
    "service": {"type": "ClusterIP", "port": 80, "grpcPort": None},
    "autoscaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 5, "targetCPUUtilizationPercentage": 70},
    "kafka": {"enabled": True, "brokers": []},
    "vault": {"enabled": True, "role": "system", "secrets": [
        {"path": "secret/data/k1s0/system/dlq-manager/database", "key": "password",
         "mountPath": "/vault/secrets/db-password"}]},
}
ALL_ON = {
    **LEAST,
    "vault": {"enabled": True, "role": "r", "secrets": [{"path": "kv/db", "key": "pass word", "mountPath": "/vault/secrets/db"}]},
    "secrets": [{"name": "broker", "mountPath": "/run/secrets/broker"}],
    "env": [{"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": "db", "key": "url"}}}],
    "migration": {"enabled": True, "config": {"database": {"user": "owner"}}},
    "imagePullSecrets": [{"name": "pull"}],
    "serviceAccount": {"annotations": {"a.example/b": "c"}},
    "service": {"annotations": {"a.example/b": "c"}},
    "podAnnotations": {"a.example/b": "c"},
    "podLabels": {"team": "x"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}}]}},
    "priorityClassName": "high",
    "networkPolicy": {"ingressFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
                      "extraEgress": [{"ports": [{"port": 3128, "protocol": "TCP"}]}]},
}


def dlq_manager():
    return with_value(DLQ_MANAGER, "config.auth", TOKENS)


def checked(programs, tmp_path, rendered, name="r-deliverd"):
    """`config check` on a rendered config.yaml, with files in place of the pod's secrets."""
    text = rendered.config_text(name)
    for path in sorted(set(re.findall(r"(?:/vault|/run)/secrets/\S+", text))):
        file = tmp_path / path.strip("/").replace("/", "-")
        file.write_text(Authority(tmp_path / "authority").ca_file.read_text() if path.endswith(".crt") else "secret")
        text = text.replace(path, str(file))
    (tmp_path / "config.yaml").write_text(text)
    return programs.run("config", "check", "--config", tmp_path / "config.yaml")


def leaves(values, path=""):
    for name, value in (enumerate(values) if isinstance(values, list) else values.items()):
        if isinstance(value, (dict, list)) and value:
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


@pytest.mark.parametrize("values", [LEAST, ALL_ON, dlq_manager()], ids=["least", "all on", "dlq-manager"])
def test_kubernetes_knows_every_field(values):
    rendered = render(values)
    assert decode(rendered.text) == rendered.kinds()


def test_the_decoder_finds_a_mistyped_field():
    text = render(LEAST).text.replace("readOnlyRootFilesystem", "readOnlyRootFileSystem")
    with pytest.raises(AssertionError, match="readOnlyRootFileSystem"):
        decode(text)


def test_what_a_release_consists_of():
    usual = ["ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget", "Service",
             "ServiceAccount"]
    assert render(LEAST).kinds() == usual
    assert render(ALL_ON).kinds() == sorted([*usual, "ConfigMap", "Job", "NetworkPolicy", "ServiceAccount"])
    for value, kind in [("autoscaling", "HorizontalPodAutoscaler"), ("podDisruptionBudget", "PodDisruptionBudget"),
                        ("networkPolicy", "NetworkPolicy")]:
        assert kind not in render(with_value(LEAST, f"{value}.enabled", False)).kinds()


def test_the_files_of_values_fit_the_schema():
    """Without Helm too."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    for values in (yaml.safe_load((CHART / "values.yaml").read_text()), dlq_manager()):
        jsonschema.validate(values, schema, jsonschema.Draft7Validator)
    with pytest.raises(jsonschema.ValidationError, match="replicaCuont"):
        jsonschema.validate({**dlq_manager(), "replicaCuont": 3}, schema, jsonschema.Draft7Validator)


def test_helm_lints_the_chart():
    done = helm("lint", CHART, stdin=(ROOT / "deploy/helm/values-dlq-manager.yaml").read_text())
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_values_are_shipped():
    assert {name: value for name, value in DLQ_MANAGER.items() if name in EXAMPLE_VALUES} == EXAMPLE_VALUES


def test_the_example_values_render_the_expected_configuration(programs, tmp_path):
    """Except TLS: shipped samples verify the server."""
    rendered = render(dlq_manager())
    config = rendered.config()
    ca_file = {"ssl_ca_file": "/run/secrets/internal-ca/ca.crt"}
    server = {**EXAMPLE_CONFIG["server"], "shutdown_seconds": 30, "insecure_http": True}
    wanted = {**EXAMPLE_CONFIG, "auth": TOKENS, "server": server,
              "database": {**EXAMPLE_CONFIG["database"], "password_file": "/vault/secrets/db-password", "ssl_mode": "verify-full",
                           **ca_file},
              "kafka": {**EXAMPLE_CONFIG["kafka"], "security_protocol": "SSL", **ca_file}}
    del wanted["database"]["password"]
    assert config == wanted
    checked(programs, tmp_path, rendered).ok()


@pytest.mark.parametrize("path, value", list(leaves(EXAMPLE_VALUES)), ids=lambda part: part if isinstance(part, str) else "")
def test_every_example_value_has_an_effect(path, value):
    base = dlq_manager()
    if path == "replicaCount":
        base = with_value(base, "autoscaling.enabled", False)
    if path.endswith("grpcPort"):
        assert f"{path}: deliverd speaks HTTP only" in refusal(with_value(base, path, 9090))
        return
    others = {"service.type": "NodePort", "kafka.brokers": ["other:9093"], "vault.secrets.0.mountPath": "/vault/secrets/other"}
    if path in others:
        other = others[path]
    elif isinstance(value, bool):
        other = not value
    else:
        other = value + 1 if isinstance(value, int) else value + "x"
    if path in ("vault.enabled", "vault.secrets.0.mountPath"):  # otherwise the named file would not be in the pod
        base = with_value(base, "config.database.password_file", "${FILE}")
    assert render(with_value(base, path, other)).text != render(base).text


@pytest.mark.parametrize("values", [LEAST, ALL_ON], ids=["least", "all on"])
def test_deliverd_accepts_the_configuration(programs, tmp_path, values):
    rendered = render(values)
    checked(programs, tmp_path, rendered).ok()
    if "migration" in values:
        checked(programs, tmp_path, rendered, "r-deliverd-migrate").ok()
        assert rendered.config("r-deliverd-migrate")["database"] == {"host": "db", "name": "app", "user": "owner"}


def test_any_setting_can_be_set_through_config(programs, tmp_path):
    values = with_value(LEAST, "config.lanes", {"events": {"outbox": "events", "sink": {
        "type": "http", "url": "https://hooks.example/in", "token_file": "/run/secrets/hooks/token"}}})
    values = with_value(values, "secrets", [{"name": "hooks", "mountPath": "/run/secrets/hooks"}])
    values = with_value(values, "config.kafka", {"max_value_bytes": 8388608, "consumer_group": "1e3"})
    values = with_value(values, "config.server", {"open_metrics": True})
    rendered = render(values)
    config = rendered.config()
    assert config["kafka"] == {"brokers": ["kafka-0:9092"], "max_value_bytes": 8388608, "consumer_group": "1e3"}
    assert config["server"] == {"host": "0.0.0.0", "port": 8080, "shutdown_seconds": 30, "open_metrics": True,
                                "insecure_http": True}
    checked(programs, tmp_path, rendered).ok()


def test_without_kafka_nothing_mentions_it(programs, tmp_path):
    rendered = render(with_value(with_value(LEAST, "kafka.enabled", False), "config.kafka", {"consumer_group": "g"}))
    assert "kafka" not in rendered.config()
    checked(programs, tmp_path, rendered).ok()


def test_ports_match():
    rendered = render(with_value(with_value(LEAST, "container.port", 9001), "service.port", 81))
    (port,) = rendered.container()["ports"]
    (served,) = rendered.of("Service")["spec"]["ports"]
    assert (port["name"], port["containerPort"], rendered.config()["server"]["port"]) == ("http", 9001, 9001)
    assert (served["port"], served["targetPort"]) == (81, "http")


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_nothing_runs_with_more_rights_than_it_needs(kind):
    spec = render(ALL_ON).of(kind)["spec"]["template"]["spec"]
    assert spec["securityContext"] == {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                                       "seccompProfile": {"type": "RuntimeDefault"}}
    (container,) = spec["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/tmp"]
    assert not spec["enableServiceLinks"]


def test_the_service_account_token_is_mounted_for_vault_only():
    assert render(LEAST).pod()["spec"]["automountServiceAccountToken"] is False
    assert render(ALL_ON).pod()["spec"]["automountServiceAccountToken"] is True


def test_probes():
    container = render(LEAST).container()
    paths = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": {"path": "/healthz", "port": "http"}, "liveness": {"path": "/healthz", "port": "http"},
                     "readiness": {"path": "/readyz", "port": "http"}}
    assert render(with_value(LEAST, "probes.liveness.periodSeconds", 7)).container()["livenessProbe"]["periodSeconds"] == 7


def test_tls_with_a_secret(programs, tmp_path):
    rendered = render(with_value(with_value(LEAST, "tls.secretName", "api-tls"), "migration.enabled", True))
    assert decode(rendered.text) == rendered.kinds()
    assert "insecure_http" not in rendered.config()["server"]
    probes = [rendered.container()[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]
    assert {probe["httpGet"]["scheme"] for probe in probes} == {"HTTPS"}
    assert rendered.of("Service")["spec"]["ports"][0]["appProtocol"] == "https"
    authority = Authority(tmp_path / "api-tls")
    for pod, name in ((rendered.pod(), "r-deliverd"), (rendered.of("Job")["spec"]["template"], "r-deliverd-migrate")):
        (volume,) = [volume["name"] for volume in pod["spec"]["volumes"]
                     if volume.get("secret", {}).get("secretName") == "api-tls"]
        (folder,) = [mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"] if mount["name"] == volume]
        for made, file in zip(authority.issue("api"), ("tls.crt", "tls.key")):  # what such a Secret holds
            made.rename(authority.folder / file)
        config = tmp_path / "config.yaml"
        config.write_text(rendered.config_text(name).replace(folder, str(authority.folder)))
        assert str(authority.folder) in config.read_text()
        programs.run("config", "check", "--config", config).ok()


def test_a_running_deliverd_answers_the_probes(programs, postgres, tmp_path):
    port = free_port()
    values = with_value(with_value(LEAST, "kafka.enabled", False), "container.port", port)
    values = with_value(with_value(values, "config.database", {"url": postgres.url}), "config.server.host", "127.0.0.1")
    rendered = render(values)
    (tmp_path / "config.yaml").write_text(rendered.config_text())
    container = rendered.container()
    serve = programs.start(*container["args"], env={"CONFIG_PATH": str(tmp_path / "config.yaml")})
    for probe in ("startup", "liveness", "readiness"):
        url = f"http://127.0.0.1:{port}{container[probe + 'Probe']['httpGet']['path']}"
        wait_for(lambda asked=url: get(asked).status == 200, 20, lambda asked=url: f"{asked}: {serve.stderr}")


def test_a_pod_has_more_time_than_deliverd_takes_to_stop():
    rendered = render(with_value(LEAST, "shutdownSeconds", 100))
    assert rendered.config()["server"]["shutdown_seconds"] == 100
    assert rendered.pod()["spec"]["terminationGracePeriodSeconds"] == 100 + 5 + 15
    assert rendered.container()["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]
    assert "lifecycle" not in render(with_value(LEAST, "preStopSeconds", 0)).container()


def test_a_changed_configuration_makes_new_pods():
    def checksum(values):
        return render(values).pod()["metadata"]["annotations"]["checksum/config"]

    assert checksum(LEAST) == checksum(with_value(LEAST, "service.port", 81))
    assert checksum(LEAST) != checksum(with_value(LEAST, "config.log", {"level": "debug"}))


def test_labels_select_the_servers_pods_and_not_the_migrations():
    rendered = render(ALL_ON)
    chosen = rendered.of("Deployment")["spec"]["selector"]["matchLabels"]
    assert chosen == rendered.of("Service")["spec"]["selector"]
    for kind, key in [("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")]:
        assert rendered.of(kind, "r-deliverd")["spec"][key]["matchLabels"] == chosen
    assert chosen.items() <= rendered.pod()["metadata"]["labels"].items()
    assert not chosen.items() <= rendered.of("Job")["spec"]["template"]["metadata"]["labels"].items()


def test_the_budget_and_the_autoscaler():
    rendered = render(with_value(LEAST, "podDisruptionBudget.maxUnavailable", "25%"))
    assert rendered.of("PodDisruptionBudget")["spec"]["maxUnavailable"] == "25%"
    scaler = rendered.of("HorizontalPodAutoscaler")["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"], scaler["scaleTargetRef"]["name"]) == (2, 5, "r-deliverd")
    assert scaler["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 70}
    assert "replicas" not in rendered.of("Deployment")["spec"]
    assert render(with_value(LEAST, "autoscaling.enabled", False)).of("Deployment")["spec"]["replicas"] == 2


def test_the_policy_opens_what_the_configuration_names():
    lanes = {"a": {"outbox": "events", "sink": {"type": "http", "url": "https://hooks.example/in?x=1:7"}},
             "b": {"outbox": "memory", "sink": {"type": "http", "url": "http://u@hooks:8088/in"}},
             "c": {"outbox": "events", "sink": {"type": "nats", "url": "nats://a:4223,nats://b"}},
             "d": {"outbox": "events", "sink": {"type": "kafka", "brokers": "k1:9094,k2"}}}
    values = with_value(with_value(ALL_ON, "config.lanes", lanes), "config.database.port", 6432)
    values["config"]["auth"] = {"jwt": {"jwks_url": "https://id.example:8443/keys"}}  # with it, tokens are not needed
    policy = render(values).of("NetworkPolicy", "r-deliverd")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [{"from": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
                                  "ports": [{"port": "http", "protocol": "TCP"}]}]
    names, named, extra = policy["egress"]
    assert names["ports"] == [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
    assert {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}} in named["to"]
    assert sorted(port["port"] for port in named["ports"]) == [443, 4222, 4223, 6432, 8088, 8200, 8443, 9092, 9094]
    assert extra == {"ports": [{"port": 3128, "protocol": "TCP"}]}
    assert render(LEAST).of("NetworkPolicy")["spec"]["ingress"][0]["from"] == [{"podSelector": {}}]
    only = [{"podSelector": {"matchLabels": {"app": "postgres"}}}]
    assert render(with_value(LEAST, "networkPolicy.egressTo", only)).of("NetworkPolicy")["spec"]["egress"][1]["to"] == only


def test_the_migrations_pod_may_call_the_database_and_vault_only():
    rendered = render(with_value(ALL_ON, "migration.config.database.port", 7432))
    policy = rendered.of("NetworkPolicy", "r-deliverd-migrate")
    job = rendered.of("Job")
    assert policy["metadata"]["annotations"]["helm.sh/hook"] == job["metadata"]["annotations"]["helm.sh/hook"]
    chosen = policy["spec"]["podSelector"]["matchLabels"]
    assert chosen.items() <= job["spec"]["template"]["metadata"]["labels"].items()
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"] and "ingress" not in policy["spec"]
    assert sorted(port["port"] for port in policy["spec"]["egress"][1]["ports"]) == [7432, 8200]


def test_kafkas_password_comes_from_vault_too(programs, tmp_path):
    """The second of the two secrets."""
    sasl = {"path": "secret/data/k1s0/system/kafka/sasl", "key": "password", "mountPath": "/vault/secrets/kafka-sasl"}
    values = with_value(dlq_manager(), "vault.secrets", [*EXAMPLE_VALUES["vault"]["secrets"], sasl])
    for name, value in (("security_protocol", "SASL_SSL"), ("sasl_mechanism", "SCRAM-SHA-512"), ("sasl_username", "dlq"),
                        ("sasl_password_file", sasl["mountPath"])):
        values = with_value(values, f"config.kafka.{name}", value)
    rendered = render(values)
    annotations = rendered.pod()["metadata"]["annotations"]
    assert annotations["vault.hashicorp.com/agent-inject-secret-kafka-sasl"] == sasl["path"]
    assert annotations["vault.hashicorp.com/agent-inject-secret-db-password"] == EXAMPLE_VALUES["vault"]["secrets"][0]["path"]
    assert rendered.config()["kafka"]["sasl_password_file"] == sasl["mountPath"]
    checked(programs, tmp_path, rendered).ok()


def test_vaults_annotations():
    annotations = render(dlq_manager()).pod()["metadata"]["annotations"]
    vault = {name.removeprefix("vault.hashicorp.com/"): value for name, value in annotations.items() if "vault" in name}
    assert vault == {
        "agent-inject": "true",
        "role": "system",
        "agent-inject-secret-db-password": "secret/data/k1s0/system/dlq-manager/database",
        "agent-inject-file-db-password": "db-password",
        "secret-volume-path-db-password": "/vault/secrets",
        "agent-inject-template-db-password": '{{- with secret "secret/data/k1s0/system/dlq-manager/database" -}}'
                                             '{{ index .Data.data "password" }}{{- end -}}',
    }
    first_engine = render(ALL_ON).pod()["metadata"]["annotations"]["vault.hashicorp.com/agent-inject-template-db"]
    assert '{{ index .Data "pass word" }}' in first_engine


def test_the_migration_is_a_self_contained_hook():
    rendered = render(ALL_ON)
    job = rendered.of("Job")
    pod = job["spec"]["template"]
    assert pod["spec"]["containers"][0]["args"] == ["migrate"]
    assert pod["metadata"]["annotations"]["vault.hashicorp.com/agent-pre-populate-only"] == "true"
    account = rendered.of("ServiceAccount", pod["spec"]["serviceAccountName"])
    (config,) = [volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume]
    for needed in (account, rendered.of("ConfigMap", config)):
        assert needed["metadata"]["annotations"]["helm.sh/hook"] == job["metadata"]["annotations"]["helm.sh/hook"]
        assert int(needed["metadata"]["annotations"]["helm.sh/hook-weight"]) < 0


def test_secrets_are_mounted_as_folders():
    rendered = render(ALL_ON)
    (volume,) = [volume for volume in rendered.pod()["spec"]["volumes"] if "secret" in volume]
    assert volume["secret"]["secretName"] == "broker"
    (mount,) = [mount for mount in rendered.container()["volumeMounts"] if mount["name"] == volume["name"]]
    assert mount["mountPath"] == "/run/secrets/broker"
    assert "subPath" not in mount, "a file mounted by itself is never renewed"


@pytest.mark.parametrize("path, value, said", [
    ("replicaCount", "two", "replicaCount"),
    ("replicaCuont", 3, "replicaCuont"),
    ("container.port", 80, "port"),
    ("service.type", "Clusterip", "type"),
    ("image.digest", "sha256:12", "digest"),
    ("runAsUser", 0, "runAsUser"),
    ("kafka.brokers", ["a:1,b:2"], "brokers"),
    ("probes.liveness.path", "/", "path"),
    ("vault.secrets", [{"path": "a", "key": "b"}], "mountPath"),
    ("podDisruptionBudget.maxUnavailable", 0, "maxUnavailable"),
    ("kafka.brokers", [], "kafka.brokers: kafka.enabled is true, but"),
    ("config.auth", {}, "config.auth: a pod can be reached from outside"),
    ("config.database", {}, "config.database: name the PostgreSQL server"),
    ("config.database", {"url": "sqlite:/tmp/x.db"}, "pods need PostgreSQL"),
    ("config.server.port", 8081, "set container.port instead"),
    ("config.server.shutdown_seconds", 5, "set shutdownSeconds instead"),
    ("config.server.tls", {"cert_file": "/run/secrets/a"}, "set tls.secretName instead"),
    ("config.database.password_file", "/run/secrets/db/password", "nothing puts /run/secrets/db/password into the pod"),
    ("config.database.password", "hunter2", "config.database.password: anyone who may read ConfigMaps"),
    ("config.database.url", "postgres://a:hunter2@db/x", "config.database.url: anyone who may read ConfigMaps"),
    ("config.kafka.sasl_password", "hunter2", "config.kafka.sasl_password: anyone"),
    ("config.lanes", {"a": {"sink": {"token": "hunter2"}}}, "config.lanes.a.sink.token: anyone"),
    ("config.lanes", {"a": {"sink": {"url": "amqp://a:hunter2@q/"}}}, "config.lanes.a.sink.url: anyone"),
    ("config.auth", {"jwt": {"jwks_url": "https://a:hunter2@id.example/keys"}}, "config.auth.jwt.jwks_url: anyone"),
    ("migration.config.database.password", "hunter2", "migration.config.database.password: anyone"),
    ("autoscaling.minReplicas", 9, "more than autoscaling.maxReplicas"),
    ("resources.requests", {"cpu": None}, "resources.requests.cpu"),
    ("serviceAccount.create", False, "serviceAccount.name"),
    ("vault.enabled", True, "vault.role"),
], ids=lambda part: part if isinstance(part, str) else "")
def test_bad_values_are_refused_with_the_reason(path, value, said):
    assert said in refusal(with_value(LEAST, path, value))


def test_all_problems_are_reported_at_once():
    said = refusal({})
    for name in ("kafka.brokers:", "config.auth:", "config.database:"):
        assert name in said


def test_the_charts_version_is_the_programs(programs):
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert programs.run("--version").ok().stdout.split()[-1] == chart["appVersion"]
    assert render(LEAST).container()["image"] == f"deliverd:{chart['appVersion']}"
    digest = "sha256:" + "ab" * 32
    assert render(with_value(LEAST, "image.digest", digest)).container()["image"] == f"deliverd@{digest}"


def test_the_page_shows_values_that_work(programs, tmp_path):
    (shown,) = blocks("docs/kubernetes.md", "yaml")
    rendered = render(yaml.safe_load(with_hashes(shown)))
    assert rendered.container()["image"].startswith("registry.example/deliverd:")
    checked(programs, tmp_path, rendered).ok()


def test_the_page_names_every_value():
    table = text_of("docs/kubernetes.md").partition("## Values")[2].partition("## Secrets")[0]
    named = set(re.findall(r"`\.?([\w.\[\]]+)`", table))
    for name, value in yaml.safe_load((CHART / "values.yaml").read_text()).items():
        parts = [name] if name in ("config", "resources") or not isinstance(value, dict) or not value else value
        for part in parts:
            assert {part, f"{name}.{part}"} & named or any(found.startswith(f"{part}[]") for found in named), (name, part)
