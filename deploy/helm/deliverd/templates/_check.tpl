{{/* Refuses values with which no pod could start, and reports all problems at once. Rules about a single value are in
     values.schema.json. */}}
{{- define "deliverd.check" -}}
{{- $problems := list -}}
{{- $config := .Values.config -}}
{{- range $name := list "container" "service" -}}
{{- if not (kindIs "invalid" (index $.Values $name "grpcPort")) -}}
{{- $problems = append $problems (printf "%s.grpcPort: deliverd speaks HTTP only; leave it null" $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.kafka.enabled (not (include "deliverd.brokers" . | fromJson).brokers) -}}
{{- $problems = append $problems "kafka.brokers: kafka.enabled is true, but neither kafka.brokers nor config.kafka.brokers names one; without Kafka set kafka.enabled to false" -}}
{{- end -}}
{{- $auth := $config.auth | default dict -}}
{{- if not (or $auth.tokens $auth.jwt (eq ($auth.mode | default "") "none")) -}}
{{- $problems = append $problems "config.auth: a pod can be reached from outside; list tokens (name, role, sha256), configure jwt, or set mode to none if something else protects the API" -}}
{{- end -}}
{{- $database := $config.database | default dict -}}
{{- $from_env := false -}}
{{- range .Values.env -}}{{- if eq .name "DATABASE_URL" -}}{{- $from_env = true -}}{{- end -}}{{- end -}}
{{- if not (or $database.host $database.url $database.url_file $from_env) -}}
{{- $problems = append $problems "config.database: name the PostgreSQL server by host, url or url_file, or by DATABASE_URL in env" -}}
{{- end -}}
{{- if hasPrefix "sqlite:" ($database.url | default "") -}}
{{- $problems = append $problems "config.database.url: SQLite is for one process with a disk; pods need PostgreSQL" -}}
{{- end -}}
{{- range $name, $instead := dict "port" "container.port" "shutdown_seconds" "shutdownSeconds" "tls" "tls.secretName" -}}
{{- if hasKey ($config.server | default dict) $name -}}
{{- $problems = append $problems (printf "config.server.%s: set %s instead" $name $instead) -}}
{{- end -}}
{{- end -}}
{{- if .Values.autoscaling.enabled -}}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) -}}
{{- $problems = append $problems "autoscaling.minReplicas: more than autoscaling.maxReplicas" -}}
{{- end -}}
{{- if not ((.Values.resources.requests | default dict).cpu) -}}
{{- $problems = append $problems "resources.requests.cpu: set one; the target of autoscaling is a share of it" -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- $problems = append $problems "serviceAccount.name: needed when serviceAccount.create is false" -}}
{{- end -}}
{{- if and .Values.vault.enabled (not .Values.vault.role) -}}
{{- $problems = append $problems "vault.role: needed when vault.enabled is true" -}}
{{- end -}}
{{- $names := list -}}
{{- range .Values.vault.secrets -}}{{- $names = append $names (include "deliverd.vaultName" .) -}}{{- end -}}
{{- if ne (len $names) (len (uniq $names)) -}}
{{- $problems = append $problems "vault.secrets: two files have the same name, and Vault's injector distinguishes files by name; rename one" -}}
{{- end -}}
{{- $problems = concat $problems (include "deliverd.unmounted" . | fromJson).problems -}}
{{- $problems = concat $problems (include "deliverd.inlineSecrets" (dict "config" .Values.config "at" "config") | fromJson).problems -}}
{{- $problems = concat $problems (include "deliverd.inlineSecrets" (dict "config" .Values.migration.config "at" "migration.config") | fromJson).problems -}}
{{- if $problems -}}
{{- fail (printf "these values cannot work:\n  - %s" (join "\n  - " $problems)) -}}
{{- end -}}
{{- end -}}

{{/* Secrets that would be written into the ConfigMap, as {"problems": […]} in JSON; `config`, and `at`: its name. */}}
{{- define "deliverd.inlineSecrets" -}}
{{- $at := .at -}}
{{- $database := .config.database | default dict -}}
{{- $values := dict (printf "%s.database.password" $at) $database.password -}}
{{- $_ := set $values (printf "%s.kafka.sasl_password" $at) (.config.kafka | default dict).sasl_password -}}
{{- $urls := dict (printf "%s.database.url" $at) $database.url -}}
{{- $_ := set $urls (printf "%s.auth.jwt.jwks_url" $at) ((.config.auth | default dict).jwt | default dict).jwks_url -}}
{{- range $lane, $settings := .config.lanes -}}
{{- $sink := $settings.sink | default dict -}}
{{- range $name := list "token" "secret" "password" -}}
{{- $_ := set $values (printf "%s.lanes.%s.sink.%s" $at $lane $name) (get $sink $name) -}}
{{- end -}}
{{- $_ := set $urls (printf "%s.lanes.%s.sink.url" $at $lane) $sink.url -}}
{{- end -}}
{{- $problems := list -}}
{{- range $where, $value := $values -}}
{{- if and $value (not (contains "${" (toString $value))) -}}
{{- $problems = append $problems (printf "%s: anyone who may read ConfigMaps could read it; use %s_file, with secrets or vault.secrets" $where $where) -}}
{{- end -}}
{{- end -}}
{{- range $where, $url := $urls -}}
{{- if regexMatch "://[^/@$]*:[^/@$]+@" (toString $url) -}}
{{- $problems = append $problems (printf "%s: anyone who may read ConfigMaps could read its password; use a file, or ${NAME} with env" $where) -}}
{{- end -}}
{{- end -}}
{{- dict "problems" $problems | toJson -}}
{{- end -}}

{{/* Secret files of config that nothing puts into the pod, as {"problems": […]} in JSON. */}}
{{- define "deliverd.unmounted" -}}
{{- $problems := list -}}
{{- $files := dict -}}
{{- range $section, $names := dict "database" (list "password_file" "url_file") "kafka" (list "sasl_password_file") -}}
{{- range $name := $names -}}
{{- with get (get $.Values.config $section | default dict) $name -}}
{{- $_ := set $files (printf "config.%s.%s" $section $name) . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $lane, $settings := .Values.config.lanes -}}
{{- range $name := list "token_file" "secret_file" "password_file" "credentials_file" -}}
{{- with get ($settings.sink | default dict) $name -}}
{{- $_ := set $files (printf "config.lanes.%s.sink.%s" $lane $name) . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $where, $file := $files -}}
{{- $mounted := contains "${" $file -}}
{{- if $.Values.vault.enabled -}}
{{- range $.Values.vault.secrets -}}{{- if eq .mountPath $file -}}{{- $mounted = true -}}{{- end -}}{{- end -}}
{{- end -}}
{{- range $.Values.secrets -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) $file -}}{{- $mounted = true -}}{{- end -}}
{{- end -}}
{{- if not $mounted -}}
{{- $problems = append $problems (printf "%s: nothing puts %s into the pod; see vault.secrets and secrets" $where $file) -}}
{{- end -}}
{{- end -}}
{{- dict "problems" $problems | toJson -}}
{{- end -}}
