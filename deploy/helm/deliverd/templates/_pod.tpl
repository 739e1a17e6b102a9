{{/* The common parts of the server's pod and the migration's pod. */}}
{{- define "deliverd.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.runAsUser }}
runAsGroup: {{ .Values.runAsGroup }}
fsGroup: {{ .Values.runAsGroup }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "deliverd.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "deliverd.env" -}}
- name: CONFIG_PATH
  value: /etc/deliverd/config.yaml
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "deliverd.probe" -}}
httpGet: {path: {{ .path }}, port: http{{ if .root.Values.tls.secretName }}, scheme: HTTPS{{ end }}}
{{- end -}}

{{- define "deliverd.mounts" -}}
- name: config
  mountPath: /etc/deliverd
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- range $i, $secret := .Values.secrets }}
- name: secret-{{ $i }}
  mountPath: {{ $secret.mountPath }}
  readOnly: true
{{- end }}
{{- if .Values.tls.secretName }}
- name: tls
  mountPath: /run/secrets/deliverd-tls
  readOnly: true
{{- end }}
{{- end -}}

{{- define "deliverd.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- range $i, $secret := .Values.secrets }}
- name: secret-{{ $i }}
  secret:
    secretName: {{ $secret.name }}
    defaultMode: 0440
{{- end }}
{{- with .Values.tls.secretName }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{/* The name of a secret for Vault: that of its file. */}}
{{- define "deliverd.vaultName" -}}
{{- base .mountPath | lower | replace "_" "-" -}}
{{- end -}}

{{- define "deliverd.vaultAnnotations" -}}
vault.hashicorp.com/agent-inject: "true"
vault.hashicorp.com/role: {{ .Values.vault.role | quote }}
{{- range .Values.vault.secrets }}
{{- $name := include "deliverd.vaultName" . }}
vault.hashicorp.com/agent-inject-secret-{{ $name }}: {{ .path | quote }}
vault.hashicorp.com/agent-inject-file-{{ $name }}: {{ base .mountPath | quote }}
vault.hashicorp.com/secret-volume-path-{{ $name }}: {{ dir .mountPath | quote }}
{{- /* The second key-value engine stores them one level deeper, and its paths have a part "data". */}}
{{- $data := ternary ".Data.data" ".Data" (has "data" (splitList "/" .path)) }}
vault.hashicorp.com/agent-inject-template-{{ $name }}: {{ printf "{{- with secret %q -}}{{ index %s %q }}{{- end -}}" .path $data .key | quote }}
{{- end }}
{{- end -}}

{{- define "deliverd.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}
