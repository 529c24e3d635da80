package graphs

import "swh-scheduler/test/model/check"

// world takes the steps.
type world struct {
	graph Graph
	rules Rules
	to    *check.Steps[State]
}

// runs takes the steps of runners and workers.
func (w world) runs(s State) {
	for i := range s.Tasks {
		next, t := s, &s.Tasks[i]
		switch t.Status {
		case Ready:
			next.Tasks[i].Status = Running
			next.Tasks[i].Again = s.Cancelled && !t.Check
			w.to.To(next, "%d runs", i)
		case Running:
			w.end(&next, i, Completed)
			w.to.To(next, "%d is completed", i)
			if s.Left.Failures > 0 {
				failed := s
				failed.Left.Failures--
				if t.Retries {
					failed.Tasks[i].Retries, failed.Tasks[i].Status = false, Ready
				} else {
					w.end(&failed, i, Failed)
				}
				w.to.Fault(failed, "a run of %d fails", i)
			}
		}
		if s.Left.Deadlines > 0 && w.graph.Deadline[i] && t.Status == Waiting && !t.Overdue {
			late := s
			late.Left.Deadlines--
			late.Tasks[i].Overdue = true
			w.to.Fault(late, "the deadline of %d is over", i)
		}
	}
}

// end ends a task. The trigger records that if other tasks depend on it; a completion only if a task watches it.
func (w world) end(s *State, i int, status Status) {
	t := &s.Tasks[i]
	t.Status, t.Watch = status, 0
	noted := w.watched(*s, i) || status != Completed && !w.rules.FailureUnnoted
	t.Change = t.Change || noted && w.dependents(i)
}

// reopen reopens a task, which the trigger records.
func (w world) reopen(s *State, i int, status Status) {
	s.Tasks[i].Status, s.Tasks[i].Watch = status, 0
	s.Tasks[i].Change = s.Tasks[i].Change || w.dependents(i)
}

func (w world) watched(s State, i int) bool {
	for _, t := range s.Tasks {
		if int(t.Watch) == i+1 {
			return true
		}
	}
	return false
}

func (w world) dependents(i int) bool {
	for t := range tasks {
		if w.graph.Needs[t][i] != No {
			return true
		}
	}
	return false
}

// drain takes the steps of the drain, which has the lock of graphs in each.
func (w world) drain(s State) {
	if s.Extending || s.Retrying > 0 && !w.rules.RetryInBatches {
		return
	}
	for i, t := range s.Tasks {
		if t.Overdue && t.Status == Waiting && !t.Check && !w.rules.NoDeadline {
			late := s
			late.Tasks[i].Check = true
			w.to.To(late, "the deadline of %d is noted", i)
		}
		if t.Choosing > 0 {
			written := s
			written.Tasks[i].Watch, written.Tasks[i].Choosing = t.Choosing, 0
			w.to.To(written, "the watch of %d is written", i)
		}
		if t.Change {
			spread := s
			w.spread(&spread, i)
			w.to.To(spread, "the change of %d is spread", i)
		}
		if t.Check && (!s.reopening(w.graph) || w.rules.RespawnEarly) {
			settled := s
			w.settle(&settled, i)
			w.to.To(settled, "%d is settled", i)
		}
	}
}

// reopening says whether a change has yet to reach tasks that couldn't run and can wait again.
func (s State) reopening(g Graph) bool {
	for i, t := range s.Tasks {
		for d := i + 1; t.Change && d < tasks; d++ {
			if g.Needs[d][i] != No && s.stale(g, d) {
				return true
			}
		}
	}
	return false
}

// stale says whether a task is disabled although its dependencies don't require that.
func (s State) stale(g Graph, i int) bool {
	t := s.Tasks[i]
	if s.Cancelled || t.Overdue || t.Status != ByDependency && t.Status != Skipped {
		return false
	}
	unmet, fate := s.fate(g, i, Task.now)
	return fate != t.Status || t.Status == Skipped && unmet
}

// spread marks the tasks affected by a change for settling. Tasks that couldn't run, and can again, wait at once.
func (w world) spread(s *State, i int) {
	s.Tasks[i].Change = false
	for d := i + 1; d < tasks; d++ {
		need, t := w.graph.Needs[d][i], &s.Tasks[d]
		if need == No || t.Status == Absent {
			continue
		}
		status := s.Tasks[i].Status
		if s.stale(w.graph, d) {
			t.Check = true
			if !w.rules.RespawnEarly {
				w.reopen(s, d, Waiting)
			}
		}
		if t.Status == Skipped || int(t.Watch) == i+1 || t.Status == Waiting && status.failed() {
			t.Check = true
		}
	}
}

// settle settles a task: it is released, or never runs, or watches another dependency.
func (w world) settle(s *State, i int) {
	t := &s.Tasks[i]
	t.Check = false
	unmet, fate := s.fate(w.graph, i, Task.now)
	if w.rules.AnyEnd && fate == ByDependency {
		fate = Absent
	}
	switch {
	case s.Cancelled:
		if t.Status == Waiting || t.Status == Ready {
			w.end(s, i, ByCancel)
		}
		if t.Status == Running && !w.rules.CancelRetries {
			t.Retries = false
		}
	case t.Status == Waiting && t.Overdue && !w.rules.NoDeadline:
		w.end(s, i, ByDeadline)
	case t.Status != Waiting && (t.Status != ByDependency && t.Status != Skipped || t.Overdue):
	case fate == ByDependency, fate == Skipped && (!unmet || w.rules.SkipsAtOnce):
		if t.Status == Waiting {
			w.end(s, i, fate)
		} else if t.Status != fate {
			t.Status, t.Change = fate, w.dependents(i)
		}
	case unmet:
		if t.Status != Waiting {
			w.reopen(s, i, Waiting)
		}
		t.Watch = s.toWatch(w.graph, i)
		if w.rules.UnlockedWatch {
			t.Choosing, t.Watch = t.Watch, 0
		}
	default:
		if t.Status != Waiting {
			w.reopen(s, i, Ready)
		}
		t.Early, t.Late = s.early(w.graph, i), t.Overdue
		t.Status, t.Watch = Ready, 0
	}
}

// toWatch returns the last dependency that has not ended. The drain locks its row, so that its end finds the watch.
func (s State) toWatch(g Graph, i int) (watch uint8) {
	for d := range i {
		if g.Needs[i][d] != No && s.Tasks[d].Status.open() {
			watch = uint8(d + 1)
		}
	}
	return watch
}

// operator takes the steps of an operator.
func (w world) operator(s State) {
	if s.Left.Cancels > 0 && !s.Cancelled && (!s.Extending || w.rules.CancelUnlocked) && s.Retrying == 0 {
		cancelled := s
		cancelled.Left.Cancels--
		cancelled.Cancelled = true
		for i := range cancelled.Tasks {
			cancelled.Tasks[i].Check = cancelled.Tasks[i].Check || s.Tasks[i].Status.open()
		}
		w.to.Fault(cancelled, "the graph is cancelled")
	}
	w.extend(s)
	w.retry(s)
	if s.Left.Respawns > 0 && !s.Extending && s.Retrying == 0 && !s.Cancelled {
		for i, t := range s.Tasks {
			if t.Status == Failed {
				again := s
				again.Left.Respawns--
				w.reopen(&again, i, Ready)
				w.to.Fault(again, "%d is respawned", i)
			}
		}
	}
}

// extend adds tasks, and dependencies on them, in one transaction.
func (w world) extend(s State) {
	if s.Extending {
		s.Extending = false
		s.Late = s.Cancelled
		w.store(&s)
		w.to.To(s, "the extension is stored")
		return
	}
	if s.Left.Extensions == 0 || s.Cancelled || s.Retrying > 0 {
		return
	}
	for i, t := range s.Tasks {
		if w.gains(i) && t.Status != Waiting && t.Status != ByDependency && t.Status != Skipped {
			return // refused
		}
	}
	s.Left.Extensions--
	s.Extending = true
	w.to.Fault(s, "an extension begins")
}

// gains says whether a task gets a dependency on an added task.
func (w world) gains(i int) bool {
	for d := range i {
		if w.graph.Needs[i][d] != No && w.graph.Added[d] && !w.graph.Added[i] {
			return true
		}
	}
	return false
}

func (w world) store(s *State) {
	for i := range s.Tasks {
		t := &s.Tasks[i]
		switch {
		case w.graph.Added[i]:
			t.Status, t.Retries = Ready, w.graph.Retries[i]
			for d := range i {
				if w.graph.Needs[i][d] != No {
					t.Status, t.Check = Waiting, true
				}
			}
		case w.gains(i):
			t.Watch, t.Check = 0, !w.rules.ExtensionUnlooked || t.Check
		}
	}
}

// retry reopens all failed tasks before any is settled.
func (w world) retry(s State) {
	if s.Retrying == 0 {
		if s.Left.Retries == 0 || s.Extending {
			return
		}
		s.Left.Retries--
		s.Cancelled = false
		s.Retrying = 1
		if !w.rules.RetryInBatches {
			for s.Retrying > 0 {
				w.retryOne(&s)
			}
		}
		w.to.Fault(s, "a retry begins")
		return
	}
	w.retryOne(&s)
	w.to.To(s, "the retry opens the next batch")
}

// retryOne reopens the next task, a batch of a retry.
func (w world) retryOne(s *State) {
	i := int(s.Retrying) - 1
	t := &s.Tasks[i]
	if t.Status.ended() && t.Status != Completed {
		t.Overdue, t.Retries = false, w.graph.Retries[i]
		w.reopen(s, i, Waiting)
		t.Check = true
	}
	s.Retrying = (s.Retrying + 1) % (tasks + 1)
}
