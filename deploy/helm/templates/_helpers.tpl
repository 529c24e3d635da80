{{/* The prefix of all names of objects: the release's name, swh-scheduler by default. */}}
{{- define "swh-scheduler.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end }}

{{/* Labels of an object of a component: (dict "root" $ "component" NAME). */}}
{{- define "swh-scheduler.labels" -}}
{{ include "swh-scheduler.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels that select the pods of a component, or of all components. */}}
{{- define "swh-scheduler.selector" -}}
app.kubernetes.io/name: swh-scheduler
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "swh-scheduler.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* The configuration of a component as YAML: the common one with its own keys; empty if there is none. */}}
{{- define "swh-scheduler.configuration" -}}
{{- $all := mergeOverwrite (deepCopy .root.Values.configuration) (deepCopy (.of.configuration | default dict)) }}
{{- if $all }}{{ toYaml $all }}{{ end }}
{{- end }}

{{- define "swh-scheduler.secret" -}}
{{ .of.existingSecret | default (printf "%s-%s" (include "swh-scheduler.name" .root) .component) }}
{{- end }}

{{/* The common fields of all components' pods: (dict "root" $ "component" NAME "of" VALUES). */}}
{{- define "swh-scheduler.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .root.Values.pods.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .root.Values.pods.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .root.Values.pods.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with .root.Values.pods.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
volumes:
- name: configuration
  secret: {secretName: {{ include "swh-scheduler.secret" . }}, defaultMode: 288} # 0440
{{- with .root.Values.pods.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The common fields of their containers. Go's garbage collector works harder near 80 % of the memory. */}}
{{- define "swh-scheduler.container" -}}
image: {{ include "swh-scheduler.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
env:
- {name: SWH_CONFIG_FILENAME, value: /etc/softwareheritage/scheduler.yml}
- {name: SWH_SCHEDULER_LOG_FORMAT, value: {{ .root.Values.logFormat }}}
- {name: GOMEMLIMIT, value: {{ div (mul (int .of.memory) 8) 10 }}MiB}
{{- with .env }}
{{ toYaml . }}
{{- end }}
{{- with .root.Values.pods.env }}
{{ toYaml . }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources:
  requests: {cpu: {{ .of.cpu }}, memory: {{ .of.memoryRequest | default 64 }}Mi}
  limits: {memory: {{ .of.memory }}Mi}
volumeMounts:
- {name: configuration, mountPath: /etc/softwareheritage, readOnly: true}
{{- with .root.Values.pods.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "swh-scheduler.annotations" -}}
{{- with .Values.annotations }}
annotations: {{ toJson . }}
{{- end }}
{{- end }}
