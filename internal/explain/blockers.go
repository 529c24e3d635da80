package explain

import (
	"fmt"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/graphs"
)

// waitsFor returns the tasks that it depends on, without itself.
func (t Task) waitsFor() (ids []int64) {
	for _, d := range t.WaitsFor {
		if d.ID != t.Task.ID && !d.Broken {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// waitsForRelease explains a task of a graph between the end of its last dependency and its release.
func (t Task) waitsForRelease(e *Explanation) {
	if len(t.WaitsFor) > 0 {
		return
	}
	e.Summary = fmt.Sprintf("It waits for its release in graph %d, where it is called %s: all that it depends on has ended.", t.Graph.Graph, t.Graph.Name)
	e.When = &e.now
	e.because("The next pass of a start-runner releases it, usually within a second.")
	if t.Runners == 0 {
		e.because("No %s of this program is connected to the database now.", t.runner())
	}
}

// describeBlockers adds the tasks that block it through others: the ends of the chains of dependencies that are not met.
func (t Task) describeBlockers(e *Explanation) {
	said := make(map[int64]bool)
	for _, b := range t.Blockers {
		switch {
		case b.Links == 0 || said[b.ID]:
		case b.Links >= graphs.MaxLinks:
			e.because("Task %d waits through a chain of more than %d tasks.", b.Direct, graphs.MaxLinks)
		default:
			name := ""
			if b.Name != "" {
				name = fmt.Sprintf(" (%s of graph %d)", b.Name, b.Graph)
			}
			e.because("The first that blocks it is task %d%s, %s before task %d: %s.", b.ID, name, model.Count(int(b.Links), "link", "links"), b.Direct, blockerState(b))
		}
		said[b.ID] = true
	}
}

// blockerState describes the state of a task that blocks others.
func blockerState(b graphs.Blocker) string {
	switch model.GraphState(b.State) {
	case model.GraphWaiting: // for no other task
		return fmt.Sprintf("it is to be released, by the next pass of a start-runner or by hand: \"swh-scheduler explain %d\"", b.ID)
	case model.GraphReady:
		return "it is ready, and not sent yet"
	case model.GraphSent:
		return "it was sent, and no worker has begun it"
	case model.GraphRunning:
		return "a worker runs it"
	}
	return "it is " + b.State
}
