// Package check has the tests of what is deployed with the scheduler by other
// programs: the chart by Helm and Kubernetes' own types, dashboards and alerts by
// Prometheus' own parser.
package check
