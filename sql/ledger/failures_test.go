package ledger_test

import (
	"fmt"
	"testing"

	"swh-scheduler/internal/testenv"
)

// Failures are stored for 30 days: the newest 10,000 of a type and an exception.
func TestFailuresAreForgotten(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	s, conn := testenv.OpenLocal(t, dsn), testenv.Connect(t, dsn)
	testenv.Exec(t, conn, `insert into scheduler_go.failures (at, type, exception, message, worker)
		select now() - case n when 1 then 31 else 29 end * interval '1 day', 'rare', 'OSError', n, '' from generate_series(1, 3) n
		union all select now(), 'many', 'OSError', n, '' from generate_series(1, 10500) n
		union all select now(), 'many', '', n, '' from generate_series(1, 10) n`)
	if err := s.ForgetFailures(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := testenv.Column[string](t, conn, "select concat_ws(' ', type, exception, count(*), min(message::int)) from scheduler_go.failures group by type, exception order by 1")
	if want := "[many  10 1 many OSError 10000 501 rare OSError 2 2]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	last, err := s.LastFailures(t.Context(), "many", "OSError", 2)
	if err != nil || len(last) != 2 || last[0].Message != "10500" {
		t.Errorf("%+v, %v", last, err)
	}
	samples, err := s.SampleFailures(t.Context(), []string{"rare", "many", "none"}, []string{"OSError", "", ""})
	if err != nil || len(samples) != 2 {
		t.Errorf("%+v, %v", samples, err)
	}
}
