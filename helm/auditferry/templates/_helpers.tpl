{{- define "auditferry.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* 52 characters at most: the controller adds a hash to the pod's label. */}}
{{- define "auditferry.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "auditferry.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "auditferry.selectorLabels" -}}
app.kubernetes.io/name: {{ include "auditferry.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What an upgrade may not change on a claim is left out of its labels: no version. Labels that are selected by are the chart's own, whatever is common. */}}
{{- define "auditferry.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "auditferry.selectorLabels" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with omit (.Values.commonLabels | default dict) "helm.sh/chart" "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The head of an object: dict "root" . "suffix" "" "labels" map "annotations" map "namespace" "" */}}
{{- define "auditferry.metadata" -}}
name: {{ include "auditferry.fullname" .root }}{{ .suffix }}
namespace: {{ default (include "auditferry.namespace" .root) .namespace }}
labels:
  {{- $own := include "auditferry.labels" .root | fromYaml }}
  {{- mergeOverwrite (dict) (.labels | default dict) $own | toYaml | nindent 2 }}
{{- with mergeOverwrite (deepCopy (.root.Values.commonAnnotations | default dict)) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "auditferry.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "auditferry.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "auditferry.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry }}
{{- if $registry }}{{ $registry }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "auditferry.pullSecrets" -}}
{{- $names := list }}
{{- range concat (.Values.global.imagePullSecrets | default list) (.Values.image.pullSecrets | default list) }}
{{- $names = append $names (dict "name" (kindIs "map" . | ternary (get (kindIs "map" . | ternary . dict) "name") .)) }}
{{- end }}
{{- with $names | uniq }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* "yes" where the journal is in PostgreSQL: several replicas, none of which has a volume. */}}
{{- define "auditferry.postgres" -}}
{{- if or (eq .Values.journal.engine "postgres") ((.Values.config | default dict).journal | default dict).postgres }}yes{{ end }}
{{- end }}

{{- define "auditferry.workload" -}}
{{- if include "auditferry.postgres" . }}deployment{{ else }}statefulset{{ end }}/{{ include "auditferry.fullname" . }}
{{- end }}

{{- define "auditferry.claimName" -}}
{{- default (printf "data-%s-0" (include "auditferry.fullname" .)) .Values.persistence.existingClaim }}
{{- end }}

{{- define "auditferry.configKey" -}}
{{- if or .Values.existingConfig.configMap .Values.existingConfig.secret }}{{ .Values.existingConfig.key }}{{ else }}auditferry.yaml{{ end }}
{{- end }}

{{/* Environment of the daemon, and of the test that stands for it. */}}
{{- define "auditferry.env" -}}
- name: AUDITFERRY_LISTEN
  value: {{ printf "%s:%d" .Values.server.address (int .Values.server.port) | quote }}
- name: AUDITFERRY_ALLOWED_HOSTS
  value: {{ include "auditferry.hosts" . | quote }}
- name: AUDITFERRY_CONFIG
  value: /etc/auditferry/auditferry.yaml
{{- if include "auditferry.hasPrivateCA" . }}
- name: NODE_EXTRA_CA_CERTS
  value: /etc/auditferry-ca/ca.crt
{{- end }}
{{- with .Values.proxy.https }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
{{- end }}
{{- with .Values.proxy.http }}
- name: HTTP_PROXY
  value: {{ . | quote }}
{{- end }}
{{- with .Values.proxy.noProxy }}
- name: NO_PROXY
  value: {{ . | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The names that the Service has in the cluster, and those of the values. */}}
{{- define "auditferry.hosts" -}}
{{- $name := include "auditferry.fullname" . }}
{{- $inSpace := printf "%s.%s" $name (include "auditferry.namespace" .) }}
{{- $own := list $name $inSpace (printf "%s.svc" $inSpace) (printf "%s.svc.cluster.local" $inSpace) }}
{{- concat $own (.Values.server.allowedHosts | default list) | join "," }}
{{- end }}

{{- define "auditferry.hasPrivateCA" -}}
{{- if or .Values.privateCA.pem .Values.privateCA.configMap .Values.privateCA.secret }}yes{{ end }}
{{- end }}

{{- define "auditferry.hasSecrets" -}}
{{- if or .Values.secrets.data .Values.secrets.existing }}yes{{ end }}
{{- end }}

{{/* No subPath anywhere: what is mounted so never changes while the pod lives. */}}
{{- define "auditferry.mounts" -}}
{{- if include "auditferry.postgres" . -}}
{{- /* For the control socket, and for what an s3 sink compresses. */ -}}
- name: tmp
  mountPath: /tmp
{{- else -}}
- name: data
  mountPath: {{ .Values.persistence.mountPath }}
{{- end }}
- name: config
  mountPath: /etc/auditferry
  readOnly: true
{{- if include "auditferry.hasSecrets" . }}
- name: secrets
  mountPath: {{ .Values.secrets.mountPath }}
  readOnly: true
{{- end }}
{{- if include "auditferry.hasPrivateCA" . }}
- name: private-ca
  mountPath: /etc/auditferry-ca
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* All volumes but the one for the state. */}}
{{- define "auditferry.volumes" -}}
- name: config
  {{- if .Values.existingConfig.secret }}
  secret:
    secretName: {{ .Values.existingConfig.secret }}
    defaultMode: 0440
  {{- else }}
  configMap:
    name: {{ .Values.existingConfig.configMap | default (include "auditferry.fullname" .) }}
    defaultMode: 0440
  {{- end }}
    items:
      - key: {{ include "auditferry.configKey" . }}
        path: auditferry.yaml
{{- if include "auditferry.hasSecrets" . }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- if .Values.secrets.data }}
      - secret:
          name: {{ include "auditferry.fullname" . }}
      {{- end }}
      {{- range .Values.secrets.existing }}
      - secret:
          {{- toYaml . | nindent 10 }}
      {{- end }}
{{- end }}
{{- if include "auditferry.hasPrivateCA" . }}
- name: private-ca
  {{- if .Values.privateCA.secret }}
  secret:
    secretName: {{ .Values.privateCA.secret }}
  {{- else }}
  configMap:
    name: {{ .Values.privateCA.configMap | default (printf "%s-ca" (include "auditferry.fullname" .)) }}
  {{- end }}
    items:
      - key: {{ if or .Values.privateCA.configMap .Values.privateCA.secret }}{{ .Values.privateCA.key }}{{ else }}ca.crt{{ end }}
        path: ca.crt
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "auditferry.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
{{ omit .probe "enabled" | toYaml }}
{{- end }}
