package main

// waitsFor tells which process should do the next step of an unfinished job: it
// follows the way of the one-shot tasks and of the visits, and names the
// process after the last step that was made.
func waitsFor(l *ledger, executions []execution, request saved) string {
	started := map[string]int{}
	for _, x := range executions {
		started[x.Queue]++
	}
	results := 0
	for url, r := range l.results {
		if url != request.URL {
			results += len(r)
		}
	}
	var listings, requests, open int
	for _, run := range l.last.Runs {
		switch {
		case run.Priority != "":
			requests++
		default:
			listings++
		}
		if run.open() {
			open++
		}
	}
	switch asked := !request.Asked.IsZero(); {
	case listings == 0:
		return runnerProcess
	case started[listTask] < listings:
		return loaderProcess
	case asked && requests == 0:
		return priorityProcess
	case asked && started[saveQueue] == 0:
		return saverProcess
	case started[loadTask] < l.scheduled():
		return loaderProcess
	case results < started[loadTask]:
		return journalProcess
	case open > 0:
		return listenerProcess
	default:
		return recurrentProcess
	}
}
