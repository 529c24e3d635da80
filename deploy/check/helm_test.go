package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	admission "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// release is the name of the chart's release in the tests.
const release = "swh-scheduler"

// manifests are the objects of `helm install`, by names without that of the release.
type manifests struct {
	deployments map[string]*appsv1.Deployment
	budgets     []*policyv1.PodDisruptionBudget
	services    map[string]*corev1.Service
	job         *batchv1.Job
	secrets     map[string]*corev1.Secret
	policies    map[string]*networkingv1.NetworkPolicy
	ingress     *networkingv1.Ingress
	monitor     *podMonitor
	rules       *prometheusRule
	dashboards  []*corev1.ConfigMap
}

// podMonitor has the used fields of Prometheus' operator's PodMonitor.
type podMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector            metav1.LabelSelector `json:"selector"`
		PodMetricsEndpoints []struct {
			Port     string `json:"port"`
			Interval string `json:"interval"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// prometheusRule is Prometheus' operator's PrometheusRule.
type prometheusRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Groups []any `json:"groups"`
	} `json:"spec"`
}

// rendered returns the files that the chart makes of values, or its error.
func rendered(values map[string]any) (map[string]string, error) {
	chart, err := loader.Load("../helm")
	if err != nil {
		return nil, err
	}
	cluster := chartutil.DefaultCapabilities.Copy()
	cluster.KubeVersion = chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"} // the oldest that docs/how-to/kubernetes.md names
	if !chartutil.IsCompatibleRange(chart.Metadata.KubeVersion, cluster.KubeVersion.Version) {
		return nil, fmt.Errorf("it is not for Kubernetes %s", cluster.KubeVersion.Version)
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: "scheduler", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, cluster)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// render reads each object as its type, and fails on unknown fields.
func render(t *testing.T, values string) manifests {
	t.Helper()
	var given map[string]any
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	files, err := rendered(given)
	if err != nil {
		t.Fatal(err)
	}
	m := manifests{
		deployments: map[string]*appsv1.Deployment{}, services: map[string]*corev1.Service{},
		secrets: map[string]*corev1.Secret{}, policies: map[string]*networkingv1.NetworkPolicy{},
	}
	for file, text := range files {
		if path.Ext(file) != ".yaml" {
			continue
		}
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
			var head metav1.TypeMeta
			if err := yaml.Unmarshal([]byte(document), &head); err != nil {
				t.Fatalf("%s: %v\n%s", file, err, document)
			}
			if head.Kind == "" {
				continue
			}
			m.read(t, head, document)
		}
	}
	return m
}

func (m *manifests) read(t *testing.T, head metav1.TypeMeta, document string) {
	t.Helper()
	read := func(object metav1.Object) string {
		t.Helper()
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Errorf("%s: %v\n%s", head.Kind, err, document)
		}
		if problems := validation.IsDNS1123Label(object.GetName()); len(problems) > 0 {
			t.Errorf("%s: %v", object.GetName(), problems)
		}
		for _, label := range object.GetLabels() {
			if problems := validation.IsValidLabelValue(label); len(problems) > 0 {
				t.Errorf("label %q of %s: %v", label, object.GetName(), problems)
			}
		}
		name, ours := strings.CutPrefix(object.GetName(), release)
		if !ours || object.GetLabels()["app.kubernetes.io/name"] != "swh-scheduler" {
			t.Errorf("%s %s, labels %v", head.Kind, object.GetName(), object.GetLabels())
		}
		return strings.TrimPrefix(name, "-")
	}
	switch of := head.APIVersion + " " + head.Kind; of {
	case "apps/v1 Deployment":
		d := new(appsv1.Deployment)
		m.deployments[read(d)] = d
	case "policy/v1 PodDisruptionBudget":
		b := new(policyv1.PodDisruptionBudget)
		read(b)
		m.budgets = append(m.budgets, b)
	case "v1 Service":
		s := new(corev1.Service)
		m.services[read(s)] = s
	case "v1 Secret":
		s := new(corev1.Secret)
		m.secrets[read(s)] = s
	case "v1 ConfigMap":
		c := new(corev1.ConfigMap)
		read(c)
		m.dashboards = append(m.dashboards, c)
	case "batch/v1 Job":
		m.job = new(batchv1.Job)
		read(m.job)
	case "networking.k8s.io/v1 NetworkPolicy":
		p := new(networkingv1.NetworkPolicy)
		m.policies[read(p)] = p
	case "networking.k8s.io/v1 Ingress":
		m.ingress = new(networkingv1.Ingress)
		read(m.ingress)
	case "monitoring.coreos.com/v1 PodMonitor":
		m.monitor = new(podMonitor)
		read(m.monitor)
	case "monitoring.coreos.com/v1 PrometheusRule":
		m.rules = new(prometheusRule)
		read(m.rules)
	default:
		t.Errorf("%s: a kind that this test does not know", of)
	}
}

// pods returns the pods' templates of all components.
func (m *manifests) pods() map[string]corev1.PodTemplateSpec {
	pods := map[string]corev1.PodTemplateSpec{}
	for name, d := range m.deployments {
		pods[name] = d.Spec.Template
	}
	if m.job != nil {
		pods["migrate"] = m.job.Spec.Template
	}
	return pods
}

// Every daemon has a deployment that runs the command of the same name, with probes of liveness and readiness on its
// metrics port. It requests and limits memory, and has its configuration from the secret.
func TestDeployments(t *testing.T) {
	t.Parallel()
	m := render(t, "")
	commands := map[string]string{
		"runner": "start-runner", "runner-priority": "start-runner", "runner-first-visits": "start-runner-first-visits",
		"listener": "start-listener", "recurrent": "schedule-recurrent", "journal-client": "journal-client", "rpc": "rpc-serve", "dashboard": "dashboard",
	}
	for name, command := range commands {
		d := m.deployments[name]
		if d == nil {
			t.Errorf("%s has no deployment", name)
			continue
		}
		pod := d.Spec.Template.Spec
		if len(pod.Containers) != 1 || len(pod.Containers[0].Args) == 0 || pod.Containers[0].Args[0] != command {
			t.Fatalf("%s does not run %s", name, command)
		}
		if !selects(t, d.Spec.Selector, d.Spec.Template.Labels) {
			t.Errorf("%s does not select its own pods", name)
		}
		for other, e := range m.deployments {
			if other != name && selects(t, d.Spec.Selector, e.Spec.Template.Labels) {
				t.Errorf("%s selects pods of %s", name, other)
			}
		}
		c := pod.Containers[0]
		for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || port(c, probe.HTTPGet.Port.String()) != 9090 {
				t.Errorf("%s: probe of %s: %+v", name, path, probe)
			}
		}
		if hook := c.Lifecycle; (name == "rpc" || name == "dashboard") && (hook == nil || hook.PreStop == nil || hook.PreStop.Sleep == nil ||
			hook.PreStop.Sleep.Seconds+30 > *pod.TerminationGracePeriodSeconds) {
			t.Errorf("%s takes no time to be left by its clients: %+v", name, hook)
		}
	}
	if len(m.deployments) != len(commands) {
		t.Errorf("%d deployments, want %d", len(m.deployments), len(commands))
	}
}

// All pods satisfy the Pod Security Standard "restricted" and have a read-only root. Each has its own configuration
// at the program's default path, not readable by everyone. The limit of Go's garbage collector is 75 to 85 % of the
// container's, so that it works harder before the system ends the process.
func TestPods(t *testing.T) {
	t.Parallel()
	m := render(t, "image: {repository: registry.example/swh-scheduler, tag: v1, digest: 'sha256:"+strings.Repeat("0", 64)+"'}")
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.pods()) != 9 {
		t.Errorf("%d pods", len(m.pods()))
	}
	for name, template := range m.pods() {
		pod := template.Spec
		restricted := admission.LevelVersion{Level: admission.LevelRestricted, Version: admission.LatestVersion()}
		if result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &template.ObjectMeta, &pod)); !result.Allowed {
			t.Errorf("%s: %s", name, result.ForbiddenDetail())
		}
		c := pod.Containers[0]
		if s := c.SecurityContext; s == nil || !*s.ReadOnlyRootFilesystem || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s is not confined: %+v", name, s)
		}
		if c.Image != "registry.example/swh-scheduler:v1@sha256:"+strings.Repeat("0", 64) {
			t.Errorf("%s runs %s", name, c.Image)
		}
		variables := map[string]string{}
		for _, v := range c.Env {
			variables[v.Name] = v.Value
		}
		soft, err := resource.ParseQuantity(strings.TrimSuffix(variables["GOMEMLIMIT"], "B"))
		hard := c.Resources.Limits.Memory()
		if share := soft.AsApproximateFloat64() / hard.AsApproximateFloat64(); err != nil || share < 0.75 || share > 0.85 {
			t.Errorf("%s: GOMEMLIMIT is %q, with a limit of %s: %v", name, variables["GOMEMLIMIT"], hard, err)
		}
		if c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("%s: resources %+v", name, c.Resources)
		}
		if len(c.VolumeMounts) != 1 || len(pod.Volumes) != 1 || c.VolumeMounts[0].Name != pod.Volumes[0].Name || pod.Volumes[0].Secret == nil ||
			pod.Volumes[0].Secret.SecretName != release+"-"+name || *pod.Volumes[0].Secret.DefaultMode != 0o440 ||
			variables["SWH_CONFIG_FILENAME"] != c.VolumeMounts[0].MountPath+"/scheduler.yml" {
			t.Errorf("%s: configuration %q in %+v", name, variables["SWH_CONFIG_FILENAME"], c.VolumeMounts)
		}
	}
}

// With a disruption budget, the draining of a node leaves all pods of a deployment but one.
func TestDisruptionBudgets(t *testing.T) {
	t.Parallel()
	m := render(t, "")
	for name, d := range m.deployments {
		n := 0
		for _, b := range m.budgets {
			if selects(t, b.Spec.Selector, d.Spec.Template.Labels) {
				n++
				if b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.IntValue() != 1 || *d.Spec.Replicas < 2 {
					t.Errorf("%s: budget %+v for %d replicas", name, b.Spec, *d.Spec.Replicas)
				}
			}
		}
		if n != 1 {
			t.Errorf("%s has %d budgets, want 1", name, n)
		}
	}
}

// The services and the ingress lead to the ports of RPC and pages.
func TestServices(t *testing.T) {
	t.Parallel()
	m := render(t, "ingress: {enabled: true, host: scheduler.example, tlsSecret: certificate, className: nginx}")
	ports := map[string]int32{"rpc": 5008, "dashboard": 5009}
	for name, number := range ports {
		s, server := m.services[name], m.deployments[name].Spec.Template
		if s == nil || !selects(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, server.Labels) || s.Spec.Ports[0].Port != number ||
			port(server.Spec.Containers[0], s.Spec.Ports[0].TargetPort.String()) != number {
			t.Errorf("service %s: %+v", name, s)
		}
	}
	if len(m.services) != len(ports) {
		t.Errorf("%d services", len(m.services))
	}
	if m.ingress == nil {
		t.Fatal("no ingress")
	}
	rule := m.ingress.Spec.Rules[0]
	backend := rule.HTTP.Paths[0].Backend.Service
	if rule.Host != "scheduler.example" || m.ingress.Spec.TLS[0].SecretName != "certificate" || backend.Name != m.services["dashboard"].Name ||
		backend.Port.Name != m.services["dashboard"].Spec.Ports[0].Name {
		t.Errorf("ingress %+v", m.ingress.Spec)
	}
	if m := render(t, "daemons: {dashboard: {enabled: false}}"); len(m.services) != 1 || len(m.deployments) != 7 || m.policies["dashboard"] != nil {
		t.Errorf("without a dashboard: services %v", m.services)
	}
}

// The job migrates before the deployments, with its configuration and the options of the values.
func TestJob(t *testing.T) {
	t.Parallel()
	m := render(t, "")
	if pod := m.job.Spec.Template.Spec; !slices.Equal(pod.Containers[0].Args, []string{"migrate"}) || pod.RestartPolicy != corev1.RestartPolicyOnFailure {
		t.Errorf("job %+v", pod)
	}
	m = render(t, "migrate: {door: true, grants: true, extraArgs: [--shorter-cooldowns]}\nconfiguration: {scheduler: {cls: postgresql}}")
	if args := m.job.Spec.Template.Spec.Containers[0].Args; !slices.Equal(args, []string{"migrate", "--door", "--grants", "--shorter-cooldowns"}) {
		t.Errorf("arguments %q", args)
	}
	for what, object := range map[string]metav1.Object{"job": m.job, "secret": m.secrets["migrate"], "policy": m.policies["migrate"]} {
		if object.GetAnnotations()["helm.sh/hook"] != "pre-install,pre-upgrade" {
			t.Errorf("the %s is no hook: %v", what, object.GetAnnotations())
		}
	}
	if m := render(t, "migrate: {enabled: false}"); m.job != nil || m.policies["migrate"] != nil {
		t.Error("a job that nobody asked for")
	}
}

// A daemon's secret has the shared configuration, overridden by its own. A changed configuration starts new pods. The
// operator's own secret replaces the chart's.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	const values = `
configuration: {scheduler: {cls: postgresql, db: "postgresql://all@db/scheduler"}, celery: {task_broker: "amqp://mq"}}
migrate: {configuration: {scheduler: {db: "postgresql://owner@db/scheduler"}}}
daemons:
  runner: {configuration: {scheduler: {db: "postgresql://runner@db/scheduler"}, lost_after: {default: 7 days}}}
  listener: {existingSecret: mine}
  recurrent-git: {enabled: true, replicas: 1, args: [schedule-recurrent, --visit-type, git], memory: 256, cpu: 50m, connects: [postgresql, rabbitmq]}
`
	m := render(t, values)
	read := func(name string) (of struct {
		Scheduler struct{ Cls, DB string }
		Celery    struct {
			TaskBroker string `json:"task_broker"`
		}
		LostAfter map[string]string `json:"lost_after"`
	}) {
		t.Helper()
		if err := yaml.UnmarshalStrict([]byte(m.secrets[name].StringData["scheduler.yml"]), &of); err != nil {
			t.Error(err)
		}
		return of
	}
	for name, user := range map[string]string{"migrate": "owner", "runner": "runner", "recurrent": "all", "rpc": "all", "recurrent-git": "all"} {
		c := read(name)
		if c.Scheduler.Cls != "postgresql" || c.Scheduler.DB != "postgresql://"+user+"@db/scheduler" || c.Celery.TaskBroker != "amqp://mq" || (c.LostAfter != nil) != (name == "runner") {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if m.secrets["listener"] != nil || m.deployments["listener"].Spec.Template.Spec.Volumes[0].Secret.SecretName != "mine" {
		t.Error("the listener does not read the secret that is there")
	}
	const checksum = "checksum/configuration"
	other := render(t, strings.Replace(values, "7 days", "8 days", 1))
	for name, d := range m.deployments {
		same := d.Spec.Template.Annotations[checksum] == other.deployments[name].Spec.Template.Annotations[checksum]
		if same == (name == "runner") {
			t.Errorf("%s: the same pods: %t", name, same)
		}
	}
	if m := render(t, ""); len(m.secrets) != 0 {
		t.Errorf("secrets of nothing: %v", slices.Collect(maps.Keys(m.secrets)))
	}
}

// Only peers that a policy names may connect to a daemon or the migration, and only to existing ports. Daemons and
// the migration may connect to their services, to peers if some are named, and to name servers. The RPC server lets in
// the daemons that connect to it.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	m := render(t, `
networkPolicy: {egress: {postgresql: {ports: [5433], peers: [{ipBlock: {cidr: 192.0.2.1/32}}]}}}
daemons: {recurrent: {connects: [rpc, rabbitmq]}}`)
	needs := map[string][]int32{
		"migrate": {5433}, "runner": {5433, 5671, 5672, 15671, 15672}, "recurrent": {5008, 5671, 5672, 15671, 15672}, "rpc": {5433}, "journal-client": {5433, 9092, 9093},
	}
	for name, pod := range m.pods() {
		open, to := map[string]bool{}, []int32{}
		n := 0
		for _, p := range m.policies {
			if !selects(t, &p.Spec.PodSelector, pod.Labels) {
				continue
			}
			n++
			if !slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{"Ingress", "Egress"}) {
				t.Errorf("%s: %v", name, p.Spec.PolicyTypes)
			}
			for _, rule := range p.Spec.Ingress {
				if len(rule.From) == 0 || len(rule.Ports) == 0 {
					t.Errorf("%s: %s lets everyone in, or to every port", name, p.Name)
				}
				for _, in := range rule.Ports {
					open[in.Port.String()] = true
					if port(pod.Spec.Containers[0], in.Port.String()) == 0 {
						t.Errorf("%s has no port %s", name, in.Port)
					}
				}
			}
			for _, rule := range p.Spec.Egress {
				for _, port := range rule.Ports {
					if number := port.Port.IntVal; number == 53 {
						continue
					} else if to = append(to, number); number == 5433 && (len(rule.To) != 1 || rule.To[0].IPBlock.CIDR != "192.0.2.1/32") {
						t.Errorf("%s may connect to any PostgreSQL: %+v", name, rule)
					}
				}
				if len(rule.Ports) == 0 {
					t.Errorf("%s may connect to every port", name)
				}
			}
		}
		want := map[string]bool{"metrics": true}
		switch name {
		case "rpc":
			want["rpc"] = true
		case "dashboard":
			want["pages"] = true
		case "migrate":
			want = map[string]bool{}
		}
		if n != 1 || !maps.Equal(open, want) {
			t.Errorf("%s: %d policies, %v are open, want %v", name, n, open, want)
		}
		slices.Sort(to)
		if ports, said := needs[name]; said && !slices.Equal(to, ports) {
			t.Errorf("%s may connect to %v, want %v", name, to, ports)
		}
	}
	for _, name := range []string{"recurrent", "runner"} {
		let := false
		for _, rule := range m.policies["rpc"].Spec.Ingress {
			for _, from := range rule.From {
				let = let || rule.Ports[0].Port.String() == "rpc" && from.PodSelector != nil && selects(t, from.PodSelector, m.pods()[name].Labels)
			}
		}
		if let != (name == "recurrent") {
			t.Errorf("the RPC server lets in %s: %t", name, let)
		}
	}
	if m := render(t, "networkPolicy: {enabled: false}"); len(m.policies) != 0 {
		t.Errorf("%d policies", len(m.policies))
	}
}

// With monitoring, Prometheus reads every daemon's metrics at an existing port, and has our alerts, with links to the
// runbooks of the values. Grafana has our dashboard.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	if m := render(t, ""); m.monitor != nil || m.rules != nil || len(m.dashboards) > 0 {
		t.Error("objects of an operator that a cluster may not have")
	}
	m := render(t, "monitoring: {podMonitor: true, rules: true, grafana: true, runbooks: 'https://docs.example/runbooks', labels: {release: prometheus}}")
	if m.monitor == nil || m.rules == nil || len(m.dashboards) != 1 || m.monitor.Labels["release"] != "prometheus" || m.rules.Labels["release"] != "prometheus" {
		t.Fatalf("%+v", m)
	}
	for name, d := range m.deployments {
		if !selects(t, &m.monitor.Spec.Selector, d.Spec.Template.Labels) || port(d.Spec.Template.Spec.Containers[0], m.monitor.Spec.PodMetricsEndpoints[0].Port) != 9090 {
			t.Errorf("%s is not read: %+v", name, m.monitor.Spec)
		}
	}
	alerts, err := os.ReadFile("../prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var want struct{ Groups []any }
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(alerts), "https://example.org/swh-scheduler/docs/how-to/runbooks.md#", "https://docs.example/runbooks#")), &want); err != nil {
		t.Fatal(err)
	}
	if got, wanted := asJSON(t, m.rules.Spec.Groups), asJSON(t, want.Groups); got != wanted || strings.Contains(got, "example.org") {
		t.Errorf("rules %s\nwant %s", got, wanted)
	}
	for _, name := range []string{"swh-scheduler.json", "swh-scheduler-over-time.json"} {
		dashboard, err := os.ReadFile("../grafana/" + name)
		if err != nil || m.dashboards[0].Data[name] != string(dashboard) || m.dashboards[0].Labels["grafana_dashboard"] != "1" {
			t.Errorf("another dashboard %s than ours, %v", name, err)
		}
	}
}

// A misspelt value, or one of a wrong type, is refused with its name.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		`{"imag": {}}`:                               "imag",
		`{"image": {"digest": "latest"}}`:            "digest",
		`{"daemons": {"runner": {"replica": 3}}}`:    "replica",
		`{"daemons": {"runner": {"replicas": "3"}}}`: "replicas",
		`{"daemons": {"Runner": {"enabled": true, "replicas": 1, "args": ["start-runner"], "memory": 64, "cpu": "1", "connects": []}}}`: "Runner",
		`{"daemons": {"another": {"enabled": true}}}`:                       "args",
		`{"daemons": {"runner": {"memory": 10}}}`:                           "memory",
		`{"daemons": {"runner": {"connects": ["postgres"]}}}`:               "daemons.runner.connects names postgres, which networkPolicy.egress has not",
		`{"networkPolicy": {"egress": {"postgresql": {"ports": [70000]}}}}`: "ports",
		`{"monitoring": {"podmonitor": true}}`:                              "podmonitor",
		`{"logFormat": "xml"}`:                                              "logFormat",
	} {
		var given map[string]any
		if err := json.Unmarshal([]byte(values), &given); err != nil {
			t.Fatal(err)
		}
		if _, err := rendered(given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to name %s", values, err, want)
		}
	}
}

// The chart renders the values of docs/how-to/kubernetes.md, and with the first ones each daemon has a database.
func TestValuesInTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	var examples []manifests
	for _, block := range regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$").FindAllStringSubmatch(string(page), -1) {
		examples = append(examples, render(t, regexp.MustCompile("(?m)^"+block[1]).ReplaceAllString(block[2], "")))
	}
	if len(examples) != 2 {
		t.Fatalf("%d examples", len(examples))
	}
	for name := range examples[0].pods() {
		if secret := examples[0].secrets[name]; secret == nil || !strings.Contains(secret.StringData["scheduler.yml"], "db: postgresql://") {
			t.Errorf("%s has no database: %+v", name, secret)
		}
	}
}

// Each value of the first and second level has a comment before it, or is in a list with comments in its first entry,
// as the first daemon has for all.
func TestValuesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../helm/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	key := regexp.MustCompile(`^( {0,2})([a-zA-Z-]+):`)
	var after string // the last comment, until an empty line
	for i, line := range lines {
		m := key.FindStringSubmatch(line)
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "":
			after = ""
		case strings.HasPrefix(trimmed, "#"):
			after = trimmed
		case m != nil && after == "":
			t.Errorf("line %d: nothing says what %s is", i+1, m[2])
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func selects(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return !s.Empty() && s.Matches(labels.Set(of))
}

// port returns the number of a container's port; 0 if it has none of this name or number.
func port(c corev1.Container, name string) int32 {
	for _, p := range c.Ports {
		if p.Name == name || fmt.Sprint(p.ContainerPort) == name {
			return p.ContainerPort
		}
	}
	return 0
}
