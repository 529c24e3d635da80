package dashboard

import (
	"math"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// Runs share one axis and are to scale, with long gaps shortened. A running run lasts until now. If a worker's clock
// makes a time negative, the timeline omits it.
func TestTimeline(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) *time.Time { return new(begin.Add(time.Duration(minutes) * time.Minute)) }
	const day = 24 * 60
	runs := []db.FoundRun{ // the newest first
		{ID: 4, Status: model.RunStarted, Scheduled: at(2 * day), Started: at(2*day - 1)}, // this worker's clock is slow
		{ID: 3, Status: model.RunScheduled, Scheduled: at(day + 20)},
		{ID: 2, Status: model.RunFailed, Scheduled: at(day), Started: at(day + 5), Ended: at(day + 20)},
		{ID: 1, Status: model.RunEventful, Scheduled: at(0), Started: at(10), Ended: at(40)},
	}
	timed, labels := timedRuns(runs[1:], *at(day + 30))
	// 40 and 30 minutes are busy, so 70/11 minutes of the day between them remain.
	const scale = 100 / (70 + 70./11)
	type shown struct {
		kind     string
		x, width float64
	}
	want := [][]shown{
		{{"between", 100 - 10*scale, 0}, {"queued", 100 - 10*scale, 10 * scale}},
		{{"between", 40 * scale, 70. / 11 * scale}, {"queued", 100 - 30*scale, 5 * scale}, {"failed", 100 - 25*scale, 15 * scale}},
		{{"queued", 0, 10 * scale}, {"ran", 10 * scale, 30 * scale}},
	}
	for i, run := range timed {
		if len(run.Line) != len(want[i]) {
			t.Fatalf("run %d: %+v", run.ID, run.Line)
		}
		for j, s := range run.Line {
			if w := want[i][j]; s.Kind != w.kind || math.Abs(s.X-w.x) > 1e-6 || math.Abs(s.Width-w.width) > 1e-6 {
				t.Errorf("run %d: %+v, want %+v", run.ID, s, w)
			}
		}
	}
	if timed[1].Waited != 300 || timed[1].Ran != 900 || timed[0].Waited != 600 {
		t.Errorf("%+v", timed)
	}
	if len(labels) != 2 || labels[0] != (label{begin, 0}) || labels[1] != (label{*at(day + 30), 100}) {
		t.Errorf("labels %+v", labels)
	}
	timed, _ = timedRuns(runs[:1], *at(2*day + 1))
	if len(timed[0].Line) != 1 || timed[0].Line[0].Kind != "ran" || timed[0].Ran != 120 {
		t.Errorf("%+v", timed[0])
	}
	for _, none := range [][]db.FoundRun{nil, {{Status: model.RunLost}}, {{Status: model.RunEventful, Scheduled: at(0), Started: at(0), Ended: at(0)}}} {
		timed, _ := timedRuns(none, *at(1)) // no run, and a range without length
		for _, run := range timed {
			for _, s := range run.Line {
				if math.IsNaN(s.X+s.Width) || math.IsInf(s.X+s.Width, 0) {
					t.Errorf("%+v", s)
				}
			}
		}
	}
}
