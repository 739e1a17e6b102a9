{{/* Names and labels. */}}
{{- define "deliverd.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 52 characters, so that there is room for "-migrate" and a pod's suffix. */}}
{{- define "deliverd.fullname" -}}
{{- $name := include "deliverd.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "deliverd.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "deliverd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The labels by which the Service, the budget and the policy select pods. The component excludes the migration's pod. */}}
{{- define "deliverd.selectorLabels" -}}
app.kubernetes.io/name: {{ include "deliverd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end -}}

{{- define "deliverd.labels" -}}
{{ include "deliverd.commonLabels" . }}
app.kubernetes.io/component: server
{{- end -}}

{{- define "deliverd.migrationLabels" -}}
{{ include "deliverd.commonLabels" . }}
app.kubernetes.io/component: migration
{{- end -}}

{{- define "deliverd.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "deliverd.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* A hook runs before the release's own account exists, so it creates one unless the values name an existing one. */}}
{{- define "deliverd.migrationAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- include "deliverd.fullname" . }}-migrate
{{- else -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "deliverd.image" -}}
{{- $image := .Values.image -}}
{{- if $image.registry -}}{{ trimSuffix "/" $image.registry }}/{{- end -}}
{{- $image.repository -}}
{{- if $image.digest -}}@{{ $image.digest }}{{- else -}}:{{ $image.tag | default .Chart.AppVersion }}{{- end -}}
{{- end -}}
