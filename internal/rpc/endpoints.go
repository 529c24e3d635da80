package rpc

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/tasks"
)

// endpoints are all calls, in the order of the Python scheduler's interface, then ours.
var endpoints = []*endpoint{
	&createTaskType.endpoint, &getTaskType.endpoint, &getTaskTypes.endpoint,
	&createTasks.endpoint, &setStatusTasks.endpoint, &disableTasks.endpoint, &searchTasks.endpoint, &getTasks.endpoint,
	&peekReadyTasks.endpoint, &grabReadyTasks.endpoint, &peekReadyPriorityTasks.endpoint, &grabReadyPriorityTasks.endpoint,
	&scheduleTaskRun.endpoint, &massScheduleTaskRuns.endpoint, &startTaskRun.endpoint, &endTaskRun.endpoint,
	&filterTaskToArchive.endpoint, &deleteArchivedTasks.endpoint, &getTaskRuns.endpoint,
	&getListers.endpoint, &getListersByID.endpoint, &getLister.endpoint, &getOrCreateLister.endpoint, &updateLister.endpoint,
	&recordListedOrigins.endpoint, &getListedOrigins.endpoint, &getVisitTypes.endpoint, &grabNextVisits.endpoint,
	&upsertVisitStats.endpoint, &getVisitStats.endpoint, &getQueuePositions.endpoint, &setQueuePosition.endpoint,
	&updateMetrics.endpoint, &getMetrics.endpoint,
	&submitGraph.endpoint, &extendGraph.endpoint, &checkGraph.endpoint, &listGraphs.endpoint, &graphStatus.endpoint, &showGraph.endpoint, &runningTasks.endpoint,
	&cancelGraph.endpoint, &retryGraph.endpoint, &releaseTask.endpoint,
	&hintOrigins.endpoint,
}

const backend = "SchedulerBackend."

// Task types.
var (
	createTaskType = define("task_type/create", operator, backend+"create_task_type", "Creates a task type, unless there is one of that name.",
		only("task_type", taskTypes), null, does((*db.Store).CreateTaskType))

	getTaskType = define("task_type/get", readers, backend+"get_task_type", "Returns the task type of a name, or none.",
		only("task_type_name", looseText), nullable(taskTypes),
		func(c *call, name string) (*model.TaskType, error) {
			t, err := c.store.TaskType(c.byKeys(1), name)
			return found(t, err, model.ErrUnknownTaskType)
		})

	getTaskTypes = define("task_type/get_all", readers, backend+"get_task_types", "Returns all task types.",
		noArguments, listing(taskTypes),
		func(c *call, _ none) ([]model.TaskType, error) { return c.store.TaskTypes(c) })
)

// Tasks.
var (
	manyTasks     = listing(taskKind)
	manyTaskRuns  = listing(taskRuns)
	integers      = listing(looseInteger)
	integersIfAny = unlessFalse(integers)

	// The policy is ignored, as the Python scheduler does: every Task has one.
	createTasks = define("task/create", web|operator, backend+"create_tasks", "Creates those tasks that are not there yet, and returns them with their numbers.",
		func(f *fields, tasks *[]tasks.NewTask) {
			required(f, "tasks", listing(newTasks), tasks)
			optional(f, "policy", anything, new(any))
		}, manyTasks, gives((*db.Store).CreateTasks)).within(web, ofTaskTypes)

	setStatusTasks = define("task/set_status", operator|daemon, backend+"set_status_tasks", "Sets the status of tasks, and if given the time of their next run.",
		func(f *fields, s *tasks.StatusChange) {
			required(f, "task_ids", integersIfAny, &s.IDs)
			optional(f, "status", textAs[model.TaskStatus](), &s.Status, model.TaskDisabled)
			optional(f, "next_run", unlessFalse(looseMoment), &s.NextRun)
			optional(f, "except_completed_tasks", truthful, &s.OnlyDue)
		}, null, setTaskStatus).by()

	disableTasks = define("task/disable", operator, backend+"disable_tasks", "Disables tasks.",
		func(f *fields, s *tasks.StatusChange) {
			s.Status = model.TaskDisabled
			required(f, "task_ids", integersIfAny, &s.IDs)
		}, null, setTaskStatus)

	searchTasks = define("task/search", readers, backend+"search_tasks", "Finds tasks by what they are and when they run next.",
		func(f *fields, a *tasks.TaskFilter) {
			optional(f, "task_id", oneOrMoreIntegers, &a.IDs)
			optional(f, "task_type", textsAs[string](), &a.Types)
			optional(f, "status", textsAs[model.TaskStatus](), &a.Statuses)
			optional(f, "priority", textsAs[model.TaskPriority](), &a.Priorities)
			optional(f, "policy", unlessFalse(orNone(textAs[model.TaskPolicy]())), &a.Policy)
			optional(f, "before", unlessFalse(looseMoment), &a.Before)
			optional(f, "after", unlessFalse(looseMoment), &a.After)
			optional(f, "limit", unlessFalse(limitOrNone), &a.Limit)
		}, manyTasks,
		func(c *call, a tasks.TaskFilter) ([]model.Task, error) {
			a.Limit = c.atMost(cmp.Or(a.Limit, all))
			found, err := c.store.SearchTasks(c, a)
			return fewOf(c, "limit", found, err)
		})

	getTasks = define("task/get", readers, backend+"get_tasks", "Returns the tasks of some numbers.",
		only("task_ids", integers), manyTasks,
		func(c *call, ids []int64) ([]model.Task, error) {
			if err := c.few("task_ids", len(ids)); err != nil {
				return nil, err
			}
			return c.store.Tasks(c.byKeys(len(ids)), ids)
		})

	peekReadyTasks = defineReady("task/peek_ready", readers, "peek_ready_tasks",
		"Returns the tasks of a type, without priority, that are to run.", (*db.Tx).PeekReadyTasks)
	grabReadyTasks = defineReady("task/grab_ready", operator|daemon, "grab_ready_tasks",
		"Marks the tasks of a type, without priority, that are to run as scheduled, and returns them.", (*db.Tx).GrabReadyTasks).by("start-runner")
	peekReadyPriorityTasks = defineReady("task/peek_ready_with_priority", readers, "peek_ready_priority_tasks",
		"Returns the tasks of a type, with any priority, that are to run.", (*db.Tx).PeekReadyPriorityTasks)
	grabReadyPriorityTasks = defineReady("task/grab_ready_with_priority", operator|daemon, "grab_ready_priority_tasks",
		"Marks the tasks of a type, with any priority, that are to run as scheduled, and returns them.", (*db.Tx).GrabReadyPriorityTasks).by("start-runner")
)

// Runs of tasks.
var (
	scheduleTaskRun = define("task_run/schedule_one", operator|daemon, backend+"schedule_task_run", "Notes that a run of a task was sent, and returns the run.",
		func(f *fields, a *runArguments) {
			required(f, "task_id", looseInteger, &a.task)
			required(f, "backend_id", looseText, &a.backendID)
			a.rest(f)
		}, taskRuns,
		func(c *call, a runArguments) (model.TaskRun, error) {
			return c.store.ScheduleTaskRun(c, a.task, a.backendID, a.metadata, c.at(a.timestamp))
		}).by("start-runner")

	massScheduleTaskRuns = define("task_run/schedule", operator|daemon, backend+"mass_schedule_task_runs", "Notes that runs were sent.",
		only("task_runs", manyTaskRuns), null, does((*db.Store).ScheduleTaskRuns)).by("start-runner")

	startTaskRun = define("task_run/start", operator|daemon, backend+"start_task_run", "Notes that a worker took a run, and returns the run, or none.",
		func(f *fields, a *runArguments) {
			required(f, "backend_id", looseText, &a.backendID)
			a.rest(f)
		}, nullable(taskRuns),
		func(c *call, a runArguments) (*model.TaskRun, error) {
			return c.store.StartTaskRun(c, a.backendID, a.metadata, c.at(a.timestamp))
		}).by("start-listener")

	endTaskRun = define("task_run/end", operator|daemon, backend+"end_task_run", "Notes how a run ended, and returns the run, or none.",
		func(f *fields, a *runArguments) {
			required(f, "backend_id", looseText, &a.backendID)
			required(f, "status", textAs[model.RunStatus](), &a.status)
			a.rest(f)
		}, nullable(taskRuns),
		func(c *call, a runArguments) (*model.TaskRun, error) {
			return c.store.EndTaskRun(c, a.backendID, a.status, a.metadata, c.at(a.timestamp))
		}).by("start-listener")

	filterTaskToArchive = define("task/filter_for_archive", readers, backend+"filter_task_to_archive",
		"Returns a page of the runs within a time span of tasks that will not run again.",
		func(f *fields, a *db.ArchiveFilter) {
			required(f, "after_ts", dateText, &a.After)
			required(f, "before_ts", dateText, &a.Before)
			optional(f, "limit", addend, &a.MaxRuns, 10)
			optional(f, "page_token", archiveToken, &a.FromTask, -1)
		}, archivePages, runsToArchive)

	deleteArchivedTasks = define("task/delete_archived", operator, backend+"delete_archived_tasks", "Deletes archived runs, and their tasks that have no other.",
		only("task_ids", listing(archivedKeys)), null, deleteArchived)

	getTaskRuns = define("task_run/get", readers, backend+"get_task_runs", "Returns the runs of tasks.",
		func(f *fields, a *runFilter) {
			required(f, "task_ids", integersIfAny, &a.tasks)
			optional(f, "limit", unlessFalse(limitOrNone), &a.limit)
		}, manyTaskRuns,
		func(c *call, a runFilter) ([]model.TaskRun, error) {
			if err := c.few("task_ids", len(a.tasks)); err != nil || len(a.tasks) == 0 {
				return nil, err
			}
			runs, err := c.store.TaskRuns(c, a.tasks, c.atMost(cmp.Or(a.limit, all)))
			return fewOf(c, "limit", runs, err)
		})
)

// runFilter are the arguments of task_run/get.
type runFilter struct {
	tasks []int64
	limit int // 0: all
}

// runArguments are those of the calls about one run.
type runArguments struct {
	task      int64
	backendID string
	status    model.RunStatus
	metadata  json.RawMessage
	timestamp time.Time
}

func (a *runArguments) rest(f *fields) {
	optional(f, "metadata", looseObject, &a.metadata)
	optional(f, "timestamp", looseMoment, &a.timestamp)
}

// Listers.
var (
	manyListers = listing(listers)

	getListers = define("listers/get", readers, backend+"get_listers", "Returns all listers, or those whose first visits are to be scheduled.",
		func(f *fields, waiting *bool) { optional(f, "with_first_visits_to_schedule", truthful, waiting) }, manyListers,
		func(c *call, waiting bool) ([]model.Lister, error) {
			all, err := c.store.Listers(c)
			if waiting {
				all = slices.DeleteFunc(all, func(l model.Lister) bool {
					return l.LastListingFinishedAt == nil || l.FirstVisitsQueuePrefix == nil || l.FirstVisitsScheduledAt != nil
				})
			}
			return oldestFirst(all), err
		})

	getListersByID = define("listers/get_by_id", readers, backend+"get_listers_by_id", "Returns the listers of some identifiers.",
		only("lister_ids", unlessFalse(listing(idText))), manyListers,
		func(c *call, ids []uuid.UUID) ([]model.Lister, error) {
			if err := c.few("lister_ids", len(ids)); err != nil || len(ids) == 0 {
				return nil, err
			}
			found, err := c.store.ListersByID(c.byKeys(len(ids)), ids)
			return oldestFirst(found), err
		})

	getLister = define("lister/get", readers|lister, backend+"get_lister", "Returns an instance of a lister, or none.",
		func(f *fields, a *listerArguments) {
			required(f, "name", nullable(text), &a.name)
			optional(f, "instance_name", looseText, &a.instance)
		}, nullable(listers),
		func(c *call, a listerArguments) (*model.Lister, error) {
			if a.name == nil {
				return nil, nil
			}
			lister, err := c.store.Lister(c.byKeys(1), *a.name, a.instance)
			return found(lister, err, model.ErrUnknownLister)
		}).within(lister, ofListerNamed)

	getOrCreateLister = define("lister/get_or_create", lister|operator, backend+"get_or_create_lister", "Returns an instance of a lister, which is created if it is not there.",
		func(f *fields, a *listerArguments) {
			required(f, "name", nullable(text), &a.name)
			optional(f, "instance_name", looseText, &a.instance)
			optional(f, "first_visits_queue_prefix", optionalText, &a.prefix)
		}, listers,
		func(c *call, a listerArguments) (l model.Lister, err error) {
			if a.name == nil {
				return l, attrsError("AttributeTypeError", "name must be <class 'str'> (got a NoneType)")
			}
			return c.store.GetOrCreateLister(c, *a.name, a.instance, a.prefix)
		}).within(lister, ofListerNamed)

	updateLister = define("lister/update", lister|operator|daemon, backend+"update_lister", "Writes a lister, unless it was written since it was read, and returns it.",
		only("lister", listers), listers, gives((*db.Store).UpdateLister)).within(lister, ofLister).by("start-runner-first-visits")
)

type listerArguments struct {
	name     *string
	instance string
	prefix   *string
}

// oldestFirst sorts listers as the Python scheduler mostly does.
func oldestFirst(listers []model.Lister) []model.Lister {
	slices.SortStableFunc(listers, func(a, b model.Lister) int { return a.Created.Compare(b.Created) })
	return listers
}

// readOrigins are the daemons that read origins.
var readOrigins = []string{"start-runner", "start-runner-first-visits", "schedule-recurrent", "journal-client", "update-metrics"}

// Origins.
var (
	manyListedOrigins = listing(listedOrigins)

	recordListedOrigins = define("origins/record", lister|operator|daemon, backend+"record_listed_origins", "Records origins that a lister found, and returns them.",
		func(f *fields, a *recordArguments) {
			required(f, "listed_origins", manyListedOrigins, &a.origins)
			optional(f, "update_last_seen", hashableTruth, &a.updateLastSeen, true)
		}, manyListedOrigins, recordOrigins).within(lister, ofOrigins).by("journal-client")

	getListedOrigins = define("origins/get", readers|lister, backend+"get_listed_origins", "Returns a page of listed origins.",
		func(f *fields, a *origins.ListedOriginFilter) {
			var url *string
			optional(f, "lister_id", nullID(looseID, isFalse), &a.ListerID)
			optional(f, "url", &kind[*string]{optionalText.pythonType, optionalText.read, nil}, &url)
			if url == nil {
				optional(f, "urls", unlessFalse(noneIfEmpty(texts)), &a.URLs)
			} else {
				optional(f, "urls", anything, new(any))
				a.URLs = []string{*url}
			}
			optional(f, "enabled", optionalBoolean, &a.Enabled, new(true))
			optional(f, "limit", integerAs[int](), &a.Limit, defaultPage)
			optional(f, "page_token", originTokens, &a.After)
		}, originPages, listOrigins).within(lister, ofOriginsOfLister).by(readOrigins...)

	getVisitTypes = define("lister/visit_types", readers|lister, backend+"get_visit_types_for_listed_origins", "Returns the visit types of the origins of a lister.",
		only("lister", &kind[any]{read: anything.read, write: func(f *fields, v *any) {
			lister, _ := (*v).(model.Lister)
			listers.write(f, &lister)
		}}), texts,
		func(c *call, value any) ([]string, error) {
			lister, ok := value.(model.Lister)
			if !ok {
				return nil, attributeError("'%s' object has no attribute 'id'", typeName(value))
			}
			return c.store.ListedVisitTypes(c, lister.ID)
		}).within(lister, ofAnyLister).by(readOrigins...)

	grabNextVisits = define("origins/grab_next", operator|daemon, backend+"grab_next_visits", "Picks origins to visit next by a policy, marks them as scheduled, and returns them.",
		visitGrab, manyListedOrigins, grabVisits).by("schedule-recurrent", "start-runner-first-visits")
)

// Visits.
var (
	upsertVisitStats = define("visit_stats/upsert", operator|daemon, backend+"origin_visit_stats_upsert", "Writes what is known of the visits of origins.",
		only("origin_visit_stats", listing(visitStats)), null, does((*db.Store).UpsertVisitStats)).by("journal-client")

	getVisitStats = define("visit_stats/get", readers, backend+"origin_visit_stats_get", "Returns what is known of the visits of origins.",
		only("ids", unlessFalse(listing(originKeys))), listing(visitStats),
		func(c *call, keys []model.OriginKey) ([]model.VisitStats, error) {
			if err := c.few("ids", len(keys)); err != nil || len(keys) == 0 {
				return nil, err
			}
			return c.store.VisitStats(c.byKeys(len(keys)), keys)
		}).by(readOrigins...)

	getQueuePositions = define("visit_scheduler/get", readers, backend+"visit_scheduler_queue_position_get",
		"Returns how far the queue of each visit type has been worked through.",
		noArguments, queuePositions,
		func(c *call, _ none) ([]origins.VisitQueuePosition, error) { return c.store.VisitQueuePositions(c) }).by(readOrigins...)

	setQueuePosition = define("visit_scheduler/set", operator|daemon, backend+"visit_scheduler_queue_position_set", "Sets how far the queue of a visit type has been worked through.",
		func(f *fields, p *origins.VisitQueuePosition) {
			required(f, "visit_type", text, &p.VisitType)
			required(f, "position", looseInteger, &p.Position)
		}, null, does((*db.Store).SetVisitQueuePosition)).by("schedule-recurrent")

	updateMetrics = define("scheduler_metrics/update", operator|daemon, backend+"update_metrics", "Counts the origins of a lister, or of all, and returns the counts.",
		func(f *fields, a *metricsArguments) {
			optional(f, "lister_id", nullID(looseID, isNone), &a.lister)
			optional(f, "timestamp", looseMoment, &a.timestamp)
		}, listing(originMetrics),
		func(c *call, a metricsArguments) ([]model.Metrics, error) {
			return c.store.UpdateMetrics(c, a.lister, a.timestamp)
		}).by("update-metrics")

	getMetrics = define("scheduler_metrics/get", readers, backend+"get_metrics", "Returns the counts of origins as they were last made.",
		func(f *fields, a *metricsArguments) {
			optional(f, "lister_id", nullID(looseID, isFalse), &a.lister)
			optional(f, "visit_type", looseText, &a.visitType)
		}, listing(originMetrics),
		func(c *call, a metricsArguments) ([]model.Metrics, error) {
			return c.store.Metrics(c, a.lister, a.visitType)
		})
)

type metricsArguments struct {
	lister    uuid.NullUUID
	visitType string
	timestamp time.Time
}
