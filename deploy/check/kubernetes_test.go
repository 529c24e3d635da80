package check

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests are what `kubectl apply -k deploy/kubernetes` would send.
type manifests struct {
	deployments map[string]*appsv1.Deployment // by component
	budgets     []*policyv1.PodDisruptionBudget
	services    []*corev1.Service
	jobs        []*batchv1.Job
	policies    map[string]*networkingv1.NetworkPolicy
	monitors    []*podMonitor
}

// podMonitor is what is used of Prometheus' operator's PodMonitor.
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

// render has kustomize build the base, and reads each object as its type, with no
// field that the type does not have.
func render(t *testing.T) manifests { return renderIn(t, filesys.MakeFsOnDisk(), "../kubernetes") }

func renderIn(t *testing.T, files filesys.FileSystem, directory string) manifests {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, directory)
	if err != nil {
		t.Fatal(err)
	}
	m := manifests{deployments: map[string]*appsv1.Deployment{}, policies: map[string]*networkingv1.NetworkPolicy{}}
	for _, resource := range built.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		read := func(object metav1.Object) {
			t.Helper()
			if err := yaml.UnmarshalStrict(text, object); err != nil {
				t.Errorf("%s %s: %v", resource.GetKind(), resource.GetName(), err)
			}
			if problems := validation.IsDNS1123Label(object.GetName()); len(problems) > 0 {
				t.Errorf("%s: %v", object.GetName(), problems)
			}
		}
		switch of := resource.GetApiVersion() + " " + resource.GetKind(); of {
		case "apps/v1 Deployment":
			d := new(appsv1.Deployment)
			read(d)
			m.deployments[strings.TrimPrefix(d.Name, "swh-scheduler-")] = d
		case "policy/v1 PodDisruptionBudget":
			b := new(policyv1.PodDisruptionBudget)
			read(b)
			m.budgets = append(m.budgets, b)
		case "v1 Service":
			s := new(corev1.Service)
			read(s)
			m.services = append(m.services, s)
		case "batch/v1 Job":
			j := new(batchv1.Job)
			read(j)
			m.jobs = append(m.jobs, j)
		case "networking.k8s.io/v1 NetworkPolicy":
			p := new(networkingv1.NetworkPolicy)
			read(p)
			m.policies[p.Name] = p
		case "monitoring.coreos.com/v1 PodMonitor":
			p := new(podMonitor)
			read(p)
			m.monitors = append(m.monitors, p)
		default:
			t.Errorf("%s %s: a kind that this test knows nothing of", of, resource.GetName())
		}
	}
	return m
}

// Every daemon has a deployment that runs the command of that name, is asked on its
// metrics port whether it is alive and ready, asks for and is held to memory, and
// takes its configuration from the secret.
func TestDeployments(t *testing.T) {
	t.Parallel()
	m := render(t)
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
		c := pod.Containers[0]
		for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || port(c, probe.HTTPGet.Port.String()) != 9090 {
				t.Errorf("%s: probe of %s: %+v", name, path, probe)
			}
		}
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("%s: resources %+v", name, c.Resources)
		}
		if hook := c.Lifecycle; (name == "rpc" || name == "dashboard") && (hook == nil || hook.PreStop == nil || hook.PreStop.Sleep == nil ||
			hook.PreStop.Sleep.Seconds+30 > *pod.TerminationGracePeriodSeconds) {
			t.Errorf("%s takes no time to be left by its clients: %+v", name, hook)
		}
		checkPod(t, name, pod)
	}
	if len(m.deployments) != len(commands) {
		t.Errorf("%d deployments, want %d", len(m.deployments), len(commands))
	}
}

// The component monitoring has Prometheus read every daemon's metrics, at a port that it has.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	overlay := t.TempDir()
	base, err := filepath.Abs("../kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(overlay, base)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("resources: [%s]\ncomponents: [%s/monitoring]\n", relative, relative)
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := renderIn(t, filesys.MakeFsOnDisk(), overlay)
	if len(m.monitors) != 1 || len(m.monitors[0].Spec.PodMetricsEndpoints) != 1 {
		t.Fatalf("%d monitors", len(m.monitors))
	}
	monitor := m.monitors[0].Spec
	for name, d := range m.deployments {
		if !selects(t, &monitor.Selector, d.Spec.Template.Labels) || port(d.Spec.Template.Spec.Containers[0], monitor.PodMetricsEndpoints[0].Port) != 9090 {
			t.Errorf("%s is not read: %+v", name, monitor)
		}
	}
}

// A deployment survives the draining of a node with all pods but one.
func TestDisruptionBudgets(t *testing.T) {
	t.Parallel()
	m := render(t)
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

// The services lead to the ports of RPC and pages, and the job migrates.
func TestServiceAndJob(t *testing.T) {
	t.Parallel()
	m := render(t)
	if len(m.services) != 2 || len(m.jobs) != 1 {
		t.Fatalf("%d services and %d jobs, want two and one", len(m.services), len(m.jobs))
	}
	ports := map[string]int32{"swh-scheduler-rpc": 5008, "swh-scheduler-dashboard": 5009}
	for _, s := range m.services {
		server := m.deployments[strings.TrimPrefix(s.Name, "swh-scheduler-")].Spec.Template
		if !selects(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, server.Labels) ||
			port(server.Spec.Containers[0], s.Spec.Ports[0].TargetPort.String()) != ports[s.Name] {
			t.Errorf("service %s: %+v", s.Name, s.Spec)
		}
	}
	pod := m.jobs[0].Spec.Template.Spec
	if !slices.Equal(pod.Containers[0].Args, []string{"migrate"}) || pod.RestartPolicy != corev1.RestartPolicyOnFailure {
		t.Errorf("job %+v", pod)
	}
	checkPod(t, "migrate", pod)
}

// To every daemon and to the migration nobody may connect but whom a policy names, and that
// to ports that are there.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	m := render(t)
	pods := map[string]corev1.PodTemplateSpec{"migrate": m.jobs[0].Spec.Template}
	for name, d := range m.deployments {
		pods[name] = d.Spec.Template
	}
	for name, pod := range pods {
		open := map[string]bool{}
		for _, p := range m.policies {
			if !selects(t, &p.Spec.PodSelector, pod.Labels) {
				continue
			}
			for _, rule := range p.Spec.Ingress {
				if len(rule.From) == 0 || len(rule.Ports) == 0 {
					t.Errorf("%s: %s lets everyone in, or to every port", name, p.Name)
				}
				for _, port := range rule.Ports {
					open[port.Port.String()] = true
				}
			}
		}
		want := map[string]bool{"metrics": true}
		if port, ok := map[string]string{"rpc": "rpc", "dashboard": "pages"}[name]; ok {
			want[port] = true
		}
		if !maps.Equal(open, want) {
			t.Errorf("%s: %v are open, want %v", name, open, want)
		}
	}
}

// checkPod looks at what all pods have in common: nothing to gain for who breaks
// in, and the configuration where the program looks for it, of its own and not for everyone
// to read.
func checkPod(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	s := c.SecurityContext
	if p := pod.SecurityContext; p == nil || p.RunAsNonRoot == nil || !*p.RunAsNonRoot || s == nil ||
		*s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("%s is not confined: %+v %+v", name, p, s)
	}
	file := ""
	for _, v := range c.Env {
		if v.Name == "SWH_CONFIG_FILENAME" {
			file = v.Value
		}
	}
	if len(c.VolumeMounts) != 1 || len(pod.Volumes) != 1 || c.VolumeMounts[0].Name != pod.Volumes[0].Name ||
		pod.Volumes[0].Secret == nil || pod.Volumes[0].Secret.SecretName != "swh-scheduler-"+name || pod.Volumes[0].Secret.DefaultMode == nil || *pod.Volumes[0].Secret.DefaultMode != 0o440 || file != c.VolumeMounts[0].MountPath+"/scheduler.yml" {
		t.Errorf("%s: configuration %q in %+v", name, file, c.VolumeMounts)
	}
}

func selects(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return !s.Empty() && s.Matches(labels.Set(of))
}

// port is the number of a container's port.
func port(c corev1.Container, name string) int32 {
	for _, p := range c.Ports {
		if p.Name == name || fmt.Sprint(p.ContainerPort) == name {
			return p.ContainerPort
		}
	}
	return 0
}
