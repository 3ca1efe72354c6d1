{{- define "drahealth.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Of the release, and of the namespace where it is used for what has none: two releases do not share a role. */}}
{{- define "drahealth.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "drahealth.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "drahealth.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "drahealth.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "drahealth.fullname" .) }}
{{- end }}

{{- /* A ValidatingAdmissionPolicy's name is a DNS name, without a colon. */}}
{{- define "drahealth.policyName" -}}
{{- printf "%s.%s" (include "drahealth.fullname" .) .Release.Namespace }}
{{- end }}

{{- define "drahealth.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "drahealth.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is needed where serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "drahealth.selector" -}}
app.kubernetes.io/name: {{ include "drahealth.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "drahealth.labels" -}}
{{ include "drahealth.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: drahealth
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* What the inventory has of both: DRA drivers publish slices, device plugins need a folder of the kubelet's. Without
one, clients may make both. */}}
{{- define "drahealth.hasDrivers" -}}
{{- $inventory := fromYaml .Values.inventory }}
{{- if or (not .Values.inventory) (hasKey $inventory "devices") (hasKey $inventory "drivers") }}yes{{ end }}
{{- end }}

{{- define "drahealth.hasPlugins" -}}
{{- if or (not .Values.inventory) (hasKey (fromYaml .Values.inventory) "plugins") }}yes{{ end }}
{{- end }}
