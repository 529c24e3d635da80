package rpc

import (
	"encoding/json"
	"fmt"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// archivePage are runs to archive, and where the next page starts ("" after the
// last).
type archivePage struct {
	runs []db.ArchivedRun
	next string
}

var archivePages = dictOf(func(f *fields, p *archivePage) {
	required(f, "tasks", manyArchivedRuns, &p.runs)
	if p.next != "" {
		required(f, "next_page_token", text, &p.next)
	}
})

var manyArchivedRuns = listing(dictOf(func(f *fields, r *db.ArchivedRun) {
	required(f, "task_id", integer, &r.TaskID)
	required(f, "task_policy", textAs[model.TaskPolicy](), &r.TaskPolicy)
	required(f, "task_status", textAs[model.TaskStatus](), &r.TaskStatus)
	required(f, "task_run_id", integer, &r.TaskRunID)
	required(f, "arguments", archivedArguments, &r.Arguments)
	required(f, "type", text, &r.Type)
	required(f, "backend_id", optionalText, &r.BackendID)
	required(f, "metadata", objectOrNone, &r.Metadata)
	required(f, "scheduled", optionalMoment, &r.Scheduled)
	required(f, "started", optionalMoment, &r.Started)
	required(f, "ended", optionalMoment, &r.Ended)
	required(f, "task_run_status", textAs[model.RunStatus](), &r.TaskRunStatus)
}))

// archivedArguments have the form that search indexes of the Python scheduler's archive need: the positional ones a
// dict by position, the keyword arguments a JSON text.
var archivedArguments = dictOf(func(f *fields, a *model.TaskArguments) {
	kwargs := string(a.Kwargs)
	required(f, "args", byPosition, &a.Args)
	required(f, "kwargs", text, &kwargs)
})

var byPosition = &kind[json.RawMessage]{write: func(f *fields, list *json.RawMessage) {
	var elements []json.RawMessage
	_ = json.Unmarshal(*list, &elements) // a value that is no list has no elements
	f.out.openDict()
	for i, element := range elements {
		f.out.intKey(i)
		f.out.json(element)
	}
	f.out.closeDict()
}}

// archiveToken is the first task of a page.
var archiveToken = &kind[int64]{pythonType{name: "int"}, func(f *fields, value any) int64 {
	switch value.(type) {
	case nil:
		return -1
	case string:
		return looseInteger.read(f, value)
	}
	f.fail(assertionError(""))
	return 0
}, nil}

func runsToArchive(c *call, a db.ArchiveFilter) (archivePage, error) {
	// One more shows whether there is a next page, and where it starts.
	wanted := min(a.MaxRuns, int64(c.maxRows)+1)
	a.MaxRuns = wanted + 1
	page := archivePage{}
	runs, err := c.store.RunsToArchive(c, a)
	if err == nil && wanted < 0 {
		return page, newException("IndexError", "list index out of range") // as the Python scheduler
	}
	if err == nil && int64(len(runs)) > wanted {
		page.next, runs = fmt.Sprint(runs[wanted].TaskID), runs[:wanted]
	}
	page.runs, err = fewOf(c, "limit", runs, err)
	return page, err
}

type archivedKey struct{ task, run int64 }

var archivedKeys = &kind[archivedKey]{pythonType{name: "int"}, func(f *fields, value any) (k archivedKey) {
	d, ok := value.(dict)
	if !ok {
		f.fail(typeError("'%s' object is not subscriptable", typeName(value)))
	}
	for key, number := range map[string]*int64{"task_id": &k.task, "task_run_id": &k.run} {
		value, given := d.get(key)
		if !given {
			f.fail(newException("KeyError", "%s", key))
			break
		}
		f.name = key
		*number = looseInteger.read(f, value)
	}
	return k
}, nil}

// deleteArchived separates runs and tasks. The Python scheduler by mistake deletes any run whose number is that of
// one of the tasks.
func deleteArchived(c *call, keys []archivedKey) (none, error) {
	tasks, runs := make([]int64, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		tasks[i], runs[i] = key.task, key.run
	}
	return none{}, c.store.DeleteArchived(c, tasks, runs)
}
