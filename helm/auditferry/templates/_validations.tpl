{{/* What cannot be meant so is told before anything is made. Each message says what is wrong and what to do. */}}
{{- define "auditferry.validate" -}}
{{- $faults := list }}
{{- $v := .Values }}
{{- $configs := list }}
{{- if $v.config }}{{ $configs = append $configs "config" }}{{ end }}
{{- if $v.existingConfig.configMap }}{{ $configs = append $configs "existingConfig.configMap" }}{{ end }}
{{- if $v.existingConfig.secret }}{{ $configs = append $configs "existingConfig.secret" }}{{ end }}
{{- if eq (len $configs) 0 }}
{{- $faults = append $faults "there is no configuration: write it under `config` (workspaces and sinks, see docs/configuration.md), or name a ConfigMap or Secret that holds it under `existingConfig`" }}
{{- else if gt (len $configs) 1 }}
{{- $faults = append $faults (printf "%s are set at once: keep one of them" (join " and " $configs)) }}
{{- end }}
{{- if $v.config }}
{{- $faults = concat $faults (include "auditferry.configFaults" . | fromYamlArray) }}
{{- end }}
{{- $postgres := include "auditferry.postgres" . }}
{{- if and (gt (int $v.replicas) 1) (not $postgres) }}
{{- $faults = append $faults (printf "replicas is %d, and a journal on a volume belongs to one process: set it to 1, or keep the journal in PostgreSQL (config.journal.postgres; with existingConfig also journal.engine: postgres)" (int $v.replicas)) }}
{{- end }}
{{- if and $v.config $v.journal.engine (ne $v.journal.engine (ternary "postgres" "sqlite" (not (empty ($v.config.journal | default dict).postgres)))) }}
{{- $faults = append $faults (printf "journal.engine is %s, and config says otherwise: leave it out, it is for existingConfig" $v.journal.engine) }}
{{- end }}
{{- if and $postgres $v.persistence.existingClaim }}
{{- $faults = append $faults "persistence.existingClaim is set, but the journal is in PostgreSQL: the claim would not be used; leave it out" }}
{{- end }}
{{- if and $postgres (ne $v.updateStrategy.type "RollingUpdate") }}
{{- $faults = append $faults (printf "updateStrategy.type is %s, which a Deployment does not know: leave it out" $v.updateStrategy.type) }}
{{- end }}
{{- if and $v.serviceMonitor.enabled $v.podMonitor.enabled }}
{{- $faults = append $faults "serviceMonitor and podMonitor are both enabled, each series would be there twice: disable one" }}
{{- end }}
{{- if and $v.prometheusRule.enabled (not $v.prometheusRule.defaultRules) (not $v.prometheusRule.groups) }}
{{- $faults = append $faults "prometheusRule is enabled without any rule: set prometheusRule.defaultRules to true, or give groups" }}
{{- end }}
{{- if gt (len (compact (list $v.privateCA.pem $v.privateCA.configMap $v.privateCA.secret))) 1 }}
{{- $faults = append $faults "privateCA has several sources: keep one of pem, configMap and secret" }}
{{- end }}
{{- if and $v.persistence.existingClaim (not $v.persistence.enabled) }}
{{- $faults = append $faults "persistence.existingClaim is set, but persistence.enabled is false: the claim would not be used; set it to true" }}
{{- end }}
{{- if regexMatch "^(127\\.|\\[(0*:)+0*1\\]$)" $v.server.address }}
{{- $faults = append $faults (printf "server.address is %s: neither the probes nor Prometheus reach the pod there; leave it out, or set 0.0.0.0 or [::]" $v.server.address) }}
{{- end }}
{{- if $faults }}
{{- fail (printf "\n\nThese values do not fit:\n  - %s\n" (join "\n  - " $faults)) }}
{{- end }}
{{- end }}

{{/* What of the inline configuration the chart knows better than the daemon. A YAML list of faults. */}}
{{- define "auditferry.configFaults" -}}
{{- $faults := list }}
{{- $v := .Values }}
{{- $c := $v.config }}
{{- $postgres := ($c.journal | default dict).postgres }}
{{- $root := printf "%s/" (trimSuffix "/" $v.persistence.mountPath) }}
{{- range $key := list "workspaces" "sinks" }}
{{- if not (get $c $key) }}
{{- $faults = append $faults (printf "config.%s is missing: set a list with at least one item" $key) }}
{{- end }}
{{- end }}
{{- if hasKey ($c.server | default dict) "listen" }}
{{- $faults = append $faults "config.server.listen is set: probes and services would not follow it; set server.address and server.port of the values instead" }}
{{- end }}
{{- with $postgres }}
{{- if and .url (not (contains "${" (toString .url))) }}
{{- $faults = append $faults (printf "config.journal.postgres.url is the secret itself, and would end up in a ConfigMap: put it into a Secret and write ${file:%s/KEY}" $v.secrets.mountPath) }}
{{- end }}
{{- else }}
{{- with ($c.journal | default dict).path }}
{{- if not (hasPrefix $root .) }}
{{- $faults = append $faults (printf "config.journal.path is %s, outside the volume: leave it out, or use a path under %s" . $root) }}
{{- end }}
{{- end }}
{{- if and (not ($c.journal | default dict).path) (ne $root "/var/lib/auditferry/") }}
{{- $faults = append $faults (printf "persistence.mountPath is %s, but the journal goes to /var/lib/auditferry: set config.journal.path to %sauditferry.db" $v.persistence.mountPath $root) }}
{{- end }}
{{- end }}
{{- $writable := empty $postgres | ternary (list $root) list }}
{{- range $v.extraVolumeMounts }}{{ $writable = append $writable (printf "%s/" (trimSuffix "/" .mountPath)) }}{{ end }}
{{- range $i, $sink := $c.sinks }}
{{- if and (kindIs "map" $sink) (eq (toString $sink.type) "file") $sink.path }}
{{- $inside := false }}
{{- range $writable }}{{ if hasPrefix . (toString $sink.path) }}{{ $inside = true }}{{ end }}{{ end }}
{{- if not $inside }}
{{- $where := empty $postgres | ternary (printf "use a path under %s, or " $root) "" }}
{{- $faults = append $faults (printf "config.sinks[%d].path is %s: the root file system is read-only; %smount a volume there with extraVolumes and extraVolumeMounts" $i (toString $sink.path) $where) }}
{{- end }}
{{- end }}
{{- range $key := list "token" "secret_access_key" }}
{{- if and (kindIs "map" $sink) (hasKey $sink $key) (not (contains "${" (get $sink $key | toString))) }}
{{- $faults = append $faults (printf "config.sinks[%d].%s is the secret itself, and would end up in a ConfigMap: put it into a Secret and write ${file:%s/KEY}" $i $key $v.secrets.mountPath) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $i, $workspace := $c.workspaces }}
{{- if and (kindIs "map" $workspace) $workspace.api_key (not (contains "${" (toString $workspace.api_key))) }}
{{- $faults = append $faults (printf "config.workspaces[%d].api_key is the secret itself, and would end up in a ConfigMap: put it into a Secret and write ${file:%s/KEY}" $i $v.secrets.mountPath) }}
{{- end }}
{{- end }}
{{- $prefix := printf "%s/" (trimSuffix "/" $v.secrets.mountPath) }}
{{- range regexFindAll "\\$\\{file:[^}]+\\}" (toJson $c) -1 | uniq }}
{{- $path := . | trimPrefix "${file:" | trimSuffix "}" }}
{{- if hasPrefix $prefix $path }}
{{- $key := trimPrefix $prefix $path }}
{{- $known := hasKey $v.secrets.data $key }}
{{- range $v.secrets.existing }}
{{- if not .items }}{{ $known = true }}{{ end }}
{{- range .items }}{{ if eq .path $key }}{{ $known = true }}{{ end }}{{ end }}
{{- end }}
{{- range $v.extraVolumeMounts }}{{ if hasPrefix .mountPath $path }}{{ $known = true }}{{ end }}{{ end }}
{{- if not $known }}
{{- $faults = append $faults (printf "config refers to %s, but no secret brings %s: name one under secrets.existing, or give secrets.data.%s" . $key $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $faults }}
{{- end }}
