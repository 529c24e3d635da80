// Package check tests the files in deploy with other programs' parsers: the chart with Helm and Kubernetes' own
// types, dashboards and alerts with Prometheus' parser.
package check
