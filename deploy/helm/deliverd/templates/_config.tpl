{{/* config.yaml: `config`, with the settings that come from other values. */}}
{{- define "deliverd.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $own := dict "port" (int .Values.container.port) "shutdown_seconds" (int .Values.shutdownSeconds) -}}
{{- if .Values.tls.secretName -}}
{{- $_ := set $own "tls" (dict "cert_file" "/run/secrets/deliverd-tls/tls.crt" "key_file" "/run/secrets/deliverd-tls/tls.key") -}}
{{- end -}}
{{- $usual := ternary (dict "host" "0.0.0.0") (dict "host" "0.0.0.0" "insecure_http" true) (hasKey $own "tls") -}}
{{- $_ := set $config "server" (merge $own ($config.server | default dict) $usual) -}}
{{- if .Values.kafka.enabled -}}
{{- if .Values.kafka.brokers -}}
{{- $_ := set $config "kafka" (merge (dict "brokers" .Values.kafka.brokers) ($config.kafka | default dict)) -}}
{{- end -}}
{{- else -}}
{{- $_ := unset $config "kafka" -}}
{{- end -}}
{{- range $section := list "auth" "database" "kafka" "lanes" -}}
{{- if not (get $config $section) -}}{{- $_ := unset $config $section -}}{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The migration's config.yaml: the same, overridden by migration.config. */}}
{{- define "deliverd.migrationConfig" -}}
{{- mergeOverwrite (include "deliverd.config" . | fromYaml) (deepCopy .Values.migration.config) | toYaml -}}
{{- end -}}

{{/* The brokers that dead letters are read from, as a list in JSON: {"brokers": […]}. */}}
{{- define "deliverd.brokers" -}}
{{- $config := include "deliverd.config" . | fromYaml -}}
{{- $brokers := ($config.kafka | default dict).brokers | default list -}}
{{- if kindIs "string" $brokers -}}{{- $brokers = splitList "," $brokers -}}{{- end -}}
{{- dict "brokers" $brokers | toJson -}}
{{- end -}}

{{/* Where pods may connect: to DNS and to the ports that `config` names, but not to link-local addresses, where clouds
     hand out credentials. */}}
{{- define "deliverd.egress" -}}
- to:
    - namespaceSelector: {}
    - ipBlock: {cidr: 169.254.20.10/32}   # DNS on the node
  ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
- to:
    {{- with .root.Values.networkPolicy.egressTo }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    - namespaceSelector: {}
    - ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16]}
    - ipBlock: {cidr: "::/0", except: ["fe80::/10", "fd00:ec2::254/128"]}
    {{- end }}
  ports:
    {{- range (include "deliverd.egressPorts" . | fromJson).ports }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- with .root.Values.networkPolicy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The TCP ports that `config` names, as {"ports": […]} in JSON; the chart does not know addresses in ${NAME}. */}}
{{- define "deliverd.egressPorts" -}}
{{- $config := .config -}}
{{- $defaults := dict "http" "80" "https" "443" "amqp" "5672" "amqps" "5671" "nats" "4222" "tls" "4222" "postgres" "5432" "postgresql" "5432" "" "9092" -}}
{{- $database := $config.database | default dict -}}
{{- $addresses := list -}}
{{- if $database.url -}}
{{- $addresses = append $addresses $database.url -}}
{{- else -}}
{{- $addresses = append $addresses (printf "postgres://database:%d" (int ($database.port | default 5432))) -}}
{{- end -}}
{{- if $config.kafka -}}
{{- $addresses = concat $addresses (include "deliverd.brokers" .root | fromJson).brokers -}}
{{- end -}}
{{- range $lane := $config.lanes -}}
{{- $sink := $lane.sink | default dict -}}
{{- if $sink.url -}}{{- $addresses = concat $addresses (splitList "," $sink.url) -}}{{- end -}}
{{- if kindIs "string" $sink.brokers -}}
{{- $addresses = concat $addresses (splitList "," $sink.brokers) -}}
{{- else if $sink.brokers -}}
{{- $addresses = concat $addresses $sink.brokers -}}
{{- end -}}
{{- end -}}
{{- with (($config.auth | default dict).jwt | default dict).jwks_url -}}{{- $addresses = append $addresses . -}}{{- end -}}
{{- if .root.Values.vault.enabled -}}
{{- $addresses = append $addresses (printf "vault:%d" (int .root.Values.networkPolicy.vaultPort)) -}}
{{- end -}}
{{- $ports := list -}}
{{- range $address := $addresses -}}
{{- $scheme := regexFind "^[A-Za-z_]+://" (trim $address) -}}
{{- $authority := trimPrefix $scheme (trim $address) | regexFind "^[^/?#]*" -}}
{{- $port := regexFind ":[0-9]+$" $authority | trimPrefix ":" -}}
{{- $port = $port | default (get $defaults (trimSuffix "://" $scheme | lower)) | default "9092" -}}
{{- $ports = append $ports (int $port) -}}
{{- end -}}
{{- dict "ports" ($ports | uniq | sortAlpha) | toJson -}}
{{- end -}}
