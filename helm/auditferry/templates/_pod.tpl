{{/* The pod of the daemon, be it of the StatefulSet or of the Deployment. */}}
{{- define "auditferry.pod" -}}
metadata:
  labels:
    {{- mergeOverwrite (deepCopy .Values.podLabels) (omit (include "auditferry.labels" . | fromYaml) "helm.sh/chart") | toYaml | nindent 4 }}
  annotations:
    {{- if .Values.config }}
    checksum/config: {{ toYaml .Values.config | sha256sum }}
    {{- end }}
    {{- if .Values.privateCA.pem }}
    checksum/ca: {{ .Values.privateCA.pem | sha256sum }}
    {{- end }}
    kubectl.kubernetes.io/default-container: auditferry
    {{- with mergeOverwrite (deepCopy .Values.commonAnnotations) .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "auditferry.serviceAccountName" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- include "auditferry.pullSecrets" . | nindent 2 }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- range $key := list "priorityClassName" "runtimeClassName" "schedulerName" "dnsPolicy" }}
  {{- with get $.Values $key }}
  {{ $key }}: {{ . }}
  {{- end }}
  {{- end }}
  {{- range $key := list "nodeSelector" "tolerations" "affinity" "hostAliases" "dnsConfig" "initContainers" }}
  {{- with get $.Values $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- with include "auditferry.spread" . }}
  topologySpreadConstraints:
    {{- . | nindent 4 }}
  {{- end }}
  containers:
    - name: auditferry
      image: {{ include "auditferry.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - run
        {{- with .Values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      env:
        {{- include "auditferry.env" . | nindent 8 }}
      {{- with .Values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: http
          containerPort: {{ .Values.server.port }}
          protocol: TCP
      {{- range $kind := list "startup" "liveness" "readiness" }}
      {{- $probe := get $.Values (printf "%sProbe" $kind) }}
      {{- if $probe.enabled }}
      {{ $kind }}Probe:
        {{- include "auditferry.probe" (dict "probe" $probe "path" (eq $kind "readiness" | ternary "/readyz" "/livez")) | nindent 8 }}
      {{- end }}
      {{- end }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        {{- include "auditferry.mounts" . | nindent 8 }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "auditferry.volumes" . | nindent 4 }}
    {{- if include "auditferry.postgres" . }}
    - name: tmp
      emptyDir: {}
    {{- else if not .Values.persistence.enabled }}
    - name: data
      emptyDir: {}
    {{- else if .Values.persistence.existingClaim }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ .Values.persistence.existingClaim }}
    {{- end }}
{{- end }}

{{/* Replicas go to several nodes where there are some, so that a lost node takes few shards with it. */}}
{{- define "auditferry.spread" -}}
{{- if .Values.topologySpreadConstraints }}
{{- toYaml .Values.topologySpreadConstraints }}
{{- else if include "auditferry.postgres" . -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "auditferry.selectorLabels" . | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}
