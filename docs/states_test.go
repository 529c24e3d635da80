package docs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/graphs"
)

// docs/reference/events.md has each state of a run, a task, a visit and a graph.
func TestStatesInTheDocs(t *testing.T) {
	t.Parallel()
	page := string(testenv.Read(t, filepath.Join("reference", "events.md")))
	for part, states := range map[string][]string{
		"Runs":   textsOf(model.RunScheduled, model.RunStarted, model.RunEventful, model.RunUneventful, model.RunFailed, model.RunPermFailed, model.RunLost),
		"Tasks":  textsOf(model.TaskNotScheduled, model.TaskScheduled, model.TaskCompleted, model.TaskDisabled),
		"Visits": textsOf(model.VisitSuccessful, model.VisitFailed, model.VisitNotFound),
		"Graphs": append(textsOf(model.GraphStates...), graphs.States...),
	} {
		_, text, _ := strings.Cut(page, "\n## "+part+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		for _, state := range states {
			if !strings.Contains(text, "`"+state+"`") {
				t.Errorf("the section %s lacks %s", part, state)
			}
		}
	}
}

func textsOf[T ~string](states ...T) (texts []string) {
	for _, s := range states {
		texts = append(texts, string(s))
	}
	return texts
}
