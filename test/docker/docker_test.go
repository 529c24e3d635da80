package docker

import "testing"

func TestSplitImage(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		"postgres":                     {"postgres", "latest"},
		"apache/kafka:3.9.1":           {"apache/kafka", "3.9.1"},
		"registry.example:5000/rabbit": {"registry.example:5000/rabbit", "latest"},
		"registry.example:5000/mq:3":   {"registry.example:5000/mq", "3"},
	} {
		if repository, tag := splitImage(name); repository != want[0] || tag != want[1] {
			t.Errorf("splitImage(%q) = %q, %q; want %q", name, repository, tag, want)
		}
	}
}
