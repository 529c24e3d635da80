package check

import (
	"os"
	"regexp"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// scaledObject is KEDA's ScaledObject (keda.sh/v1alpha1), with the fields of its version 2.10 and later.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef struct {
			Name                   string `json:"name"`
			APIVersion             string `json:"apiVersion"`
			Kind                   string `json:"kind"`
			EnvSourceContainerName string `json:"envSourceContainerName"`
		} `json:"scaleTargetRef"`
		PollingInterval  *int32 `json:"pollingInterval"`
		CooldownPeriod   *int32 `json:"cooldownPeriod"`
		IdleReplicaCount *int32 `json:"idleReplicaCount"`
		MinReplicaCount  *int32 `json:"minReplicaCount"`
		MaxReplicaCount  *int32 `json:"maxReplicaCount"`
		Advanced         struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
				Name     string                                         `json:"name"`
			} `json:"horizontalPodAutoscalerConfig"`
			RestoreToOriginalReplicaCount bool `json:"restoreToOriginalReplicaCount"`
		} `json:"advanced"`
		Triggers []struct {
			Type              string            `json:"type"`
			Name              string            `json:"name"`
			UseCachedMetrics  bool              `json:"useCachedMetrics"`
			Metadata          map[string]string `json:"metadata"` // texts only
			AuthenticationRef struct {
				Name string `json:"name"`
				Kind string `json:"kind"`
			} `json:"authenticationRef"`
			MetricType autoscalingv2.MetricTargetType `json:"metricType"`
		} `json:"triggers"`
		Fallback *struct {
			FailureThreshold int32 `json:"failureThreshold"`
			Replicas         int32 `json:"replicas"`
		} `json:"fallback"`
	} `json:"spec"`
}

// triggerAuthentication has the used fields of KEDA's TriggerAuthentication.
type triggerAuthentication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretTargetRef []struct {
			Parameter string `json:"parameter"`
			Name      string `json:"name"`
			Key       string `json:"key"`
		} `json:"secretTargetRef"`
	} `json:"spec"`
}

// triggerKeys are the keys of the triggers' metadata.
var triggerKeys = map[string]*regexp.Regexp{
	"prometheus": regexp.MustCompile(`^(serverAddress|query|queryParameters|threshold|activationThreshold|namespace|customHeaders|ignoreNullValues|unsafeSsl|authModes|timeout)$`),
	"rabbitmq":   regexp.MustCompile(`^(host|hostFromEnv|protocol|mode|value|activationValue|queueName|vhostName|unsafeSsl|excludeUnacknowledged|useRegex|pageSize|operation|timeout)$`),
}

// The samples for KEDA have only fields of KEDA, scale from zero within bounds, and use an existing metric.
func TestKEDASamples(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../keda/loader-git.yaml")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var types, references []string
	authentications := map[string]bool{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var head metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &head); err != nil || head.APIVersion != "keda.sh/v1alpha1" {
			t.Fatal(head, err)
		}
		if head.Kind == "TriggerAuthentication" {
			var a triggerAuthentication
			if err := yaml.UnmarshalStrict([]byte(document), &a); err != nil || len(a.Spec.SecretTargetRef) != 1 {
				t.Error(err, a.Spec)
			}
			authentications[a.Name] = true
			continue
		}
		var o scaledObject
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Errorf("%v\n%s", err, document)
			continue
		}
		if s := o.Spec; o.Name == "" || s.ScaleTargetRef.Name == "" || s.MinReplicaCount == nil || *s.MinReplicaCount != 0 || s.MaxReplicaCount == nil || len(s.Triggers) != 1 {
			t.Errorf("%s: %+v", o.Name, s)
			continue
		}
		trigger := o.Spec.Triggers[0]
		types = append(types, trigger.Type)
		for key := range trigger.Metadata {
			if keys := triggerKeys[trigger.Type]; keys == nil || !keys.MatchString(key) {
				t.Errorf("%s: a trigger %s has no %s", o.Name, trigger.Type, key)
			}
		}
		if name := trigger.AuthenticationRef.Name; name != "" {
			references = append(references, name)
		}
		for _, metric := range regexp.MustCompile(`swh_scheduler_\w+`).FindAllString(trigger.Metadata["query"], -1) {
			if !strings.Contains(string(metrics), "| `"+metric+"` |") {
				t.Errorf("%s: there is no metric %s", o.Name, metric)
			}
		}
	}
	if got := strings.Join(types, " "); got != "prometheus rabbitmq" {
		t.Errorf("triggers: %s", got)
	}
	for _, name := range references {
		if !authentications[name] {
			t.Errorf("no TriggerAuthentication %s", name)
		}
	}
}
