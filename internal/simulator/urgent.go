package simulator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/tasks"
)

// urgencies are the priorities of tasks, the highest first.
var urgencies = []model.TaskPriority{model.PriorityHigh, model.PriorityNormal, model.PriorityLow}

// addUrgent adds one-shot tasks with priority, each for another origin. They become ready at even intervals within the
// next hour.
func (s *simulation) addUrgent(ctx context.Context) error {
	urgent := make([]tasks.NewTask, s.Urgent)
	for i := range urgent {
		s.urgent++
		var kwargs dispatch.Kwargs
		kwargs.Set("url", fmt.Appendf(nil, "%q", fmt.Sprintf("https://example.com/save-code-now/%d", s.urgent)))
		urgent[i] = tasks.NewTask{
			Type: model.LoaderTaskType(s.queues[0].visitType), Arguments: model.TaskArguments{Kwargs: kwargs.JSON()}, Policy: model.Oneshot,
			NextRun: s.clock.Now().Add(listerPeriod * time.Duration(i) / time.Duration(s.Urgent)), Priority: urgencies[s.urgent%len(urgencies)],
		}
	}
	s.forgetNextClaims()
	_, err := s.Store.CreateTasks(ctx, urgent)
	return err
}

// UrgentUse has the waits of tasks of a priority, from the time when they became ready until a worker started them.
type UrgentUse struct {
	Priority model.TaskPriority `json:"priority"`
	Tasks    int                `json:"tasks"`
	Waited   float64            `json:"waited"` // on average, in seconds
}

// Urgent returns the waits of tasks with priority that began, by priority.
func (r *Report) Urgent() []UrgentUse {
	var uses []UrgentUse
	for _, p := range urgencies {
		if w := r.urgent[p]; w.visits > 0 {
			uses = append(uses, UrgentUse{Priority: p, Tasks: w.visits, Waited: w.mean().Seconds()})
		}
	}
	return uses
}

// UrgentText formats Urgent; "" without tasks with priority.
func (r *Report) UrgentText() string {
	uses := r.Urgent()
	if len(uses) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Tasks with priority that began:\n")
	for _, u := range uses {
		fmt.Fprintf(&b, "  %s: %d; mean wait: %.0f seconds\n", u.Priority, u.Tasks, u.Waited)
	}
	return b.String()
}
