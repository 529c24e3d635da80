package tasktype

import (
	_ "embed"
	"fmt"
	"strings"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
)

//go:embed known.yml
var knownText string

// knownTaskTypes returns the built-in task types of the archive's packages by plugin, ordered by name, and the
// packages with their versions.
func knownTaskTypes() (byPlugin map[string][]model.TaskType, packages string, err error) {
	head, text, _ := strings.Cut(knownText, "\n")
	packages = strings.TrimPrefix(head, "# Made by known.py from ")
	byPlugin = map[string][]model.TaskType{}
	var plugin string
	for line := range strings.Lines(text) {
		if name, found := strings.CutSuffix(line, ":\n"); found {
			plugin = name
			byPlugin[plugin] = nil
			continue
		}
		types, warnings, err := config.ReadTaskTypes("known.yml", []byte(strings.TrimSpace(line)))
		if err != nil || len(warnings) > 0 {
			return nil, "", fmt.Errorf("plugin %s: %w %v", plugin, err, warnings)
		}
		for _, t := range types {
			byPlugin[plugin] = append(byPlugin[plugin], described(t))
		}
	}
	return byPlugin, packages, nil
}

func described(t model.TaskType) model.TaskType {
	t.Description = "Celery task " + t.BackendName
	return t
}
