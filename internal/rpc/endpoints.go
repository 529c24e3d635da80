package rpc

import (
	"context"
	"time"

	"swh-scheduler/sql"
)

// endpoint is one of the 34 calls: a path, and the method of the peer's backend
// that it stands for.
type endpoint struct {
	path string
	signature
	description string // for people; see /site-map
	handle      func(*call) error
}

// call is one call being answered: a handler reads args, asks store, and writes
// what the method returns to out. An error discards what was written.
type call struct {
	context.Context
	store *sql.Store
	args  *arguments
	out   encoder
	now   time.Time
}

// time is an argument that is a moment; now if it is None or not given.
func (c *call) time(name string) time.Time {
	if t := c.args.time(name); !t.IsZero() {
		return t
	}
	return c.now
}

// endpoints are all calls, in the order of the peer's interface.
var endpoints = func() []endpoint {
	var all []endpoint
	add := func(path, method string, required, optional []string, handle func(*call) error, description string) {
		all = append(all, endpoint{path, signature{"SchedulerBackend." + method, required, optional}, description, handle})
	}
	none := []string(nil)
	ready := []string{"timestamp", "num_tasks"}

	add("task_type/create", "create_task_type", []string{"task_type"}, none, createTaskType,
		"Creates a task type, unless there is one of that name.")
	add("task_type/get", "get_task_type", []string{"task_type_name"}, none, getTaskType,
		"Returns the task type of a name, or none.")
	add("task_type/get_all", "get_task_types", none, none, getTaskTypes,
		"Returns all task types.")
	add("task/create", "create_tasks", []string{"tasks"}, []string{"policy"}, createTasks,
		"Creates those tasks that are not there yet, and returns them with their numbers.")
	add("task/set_status", "set_status_tasks", []string{"task_ids"}, []string{"status", "next_run", "except_completed_tasks"}, setStatusTasks,
		"Sets the status of tasks, and if given the time of their next run.")
	add("task/disable", "disable_tasks", []string{"task_ids"}, none, disableTasks,
		"Disables tasks.")
	add("task/search", "search_tasks", none, []string{"task_id", "task_type", "status", "priority", "policy", "before", "after", "limit"}, searchTasks,
		"Finds tasks by what they are and when they run next.")
	add("task/get", "get_tasks", []string{"task_ids"}, none, getTasks,
		"Returns the tasks of some numbers.")
	add("task/peek_ready", "peek_ready_tasks", []string{"task_type"}, ready, peekReadyTasks,
		"Returns the tasks of a type, without priority, that are to run.")
	add("task/grab_ready", "grab_ready_tasks", []string{"task_type"}, ready, grabReadyTasks,
		"Marks the tasks of a type, without priority, that are to run as scheduled, and returns them.")
	add("task/peek_ready_with_priority", "peek_ready_priority_tasks", []string{"task_type"}, ready, peekReadyPriorityTasks,
		"Returns the tasks of a type, with any priority, that are to run.")
	add("task/grab_ready_with_priority", "grab_ready_priority_tasks", []string{"task_type"}, ready, grabReadyPriorityTasks,
		"Marks the tasks of a type, with any priority, that are to run as scheduled, and returns them.")
	add("task_run/schedule_one", "schedule_task_run", []string{"task_id", "backend_id"}, []string{"metadata", "timestamp"}, scheduleTaskRun,
		"Notes that a run of a task was sent, and returns the run.")
	add("task_run/schedule", "mass_schedule_task_runs", []string{"task_runs"}, none, massScheduleTaskRuns,
		"Notes that runs were sent.")
	add("task_run/start", "start_task_run", []string{"backend_id"}, []string{"metadata", "timestamp"}, startTaskRun,
		"Notes that a worker took a run, and returns the run, or none.")
	add("task_run/end", "end_task_run", []string{"backend_id", "status"}, []string{"metadata", "timestamp"}, endTaskRun,
		"Notes how a run ended, and returns the run, or none.")
	add("task/filter_for_archive", "filter_task_to_archive", []string{"after_ts", "before_ts"}, []string{"limit", "page_token"}, filterTaskToArchive,
		"Returns a page of the runs within a time span of tasks that will not run again.")
	add("task/delete_archived", "delete_archived_tasks", []string{"task_ids"}, none, deleteArchivedTasks,
		"Deletes archived runs, and their tasks that have no other.")
	add("task_run/get", "get_task_runs", []string{"task_ids"}, []string{"limit"}, getTaskRuns,
		"Returns the runs of tasks.")
	add("listers/get", "get_listers", none, []string{"with_first_visits_to_schedule"}, getListers,
		"Returns all listers, or those whose first visits are to be scheduled.")
	add("listers/get_by_id", "get_listers_by_id", []string{"lister_ids"}, none, getListersByID,
		"Returns the listers of some identifiers.")
	add("lister/get", "get_lister", []string{"name"}, []string{"instance_name"}, getLister,
		"Returns an instance of a lister, or none.")
	add("lister/get_or_create", "get_or_create_lister", []string{"name"}, []string{"instance_name", "first_visits_queue_prefix"}, getOrCreateLister,
		"Returns an instance of a lister, which is created if it is not there.")
	add("lister/update", "update_lister", []string{"lister"}, none, updateLister,
		"Writes a lister, unless it was written since it was read, and returns it.")
	add("origins/record", "record_listed_origins", []string{"listed_origins"}, []string{"update_last_seen"}, recordListedOrigins,
		"Records origins that a lister found, and returns them.")
	add("origins/get", "get_listed_origins", none, []string{"lister_id", "url", "urls", "enabled", "limit", "page_token"}, getListedOrigins,
		"Returns a page of listed origins.")
	add("lister/visit_types", "get_visit_types_for_listed_origins", []string{"lister"}, none, getVisitTypes,
		"Returns the visit types of the origins of a lister.")
	add("origins/grab_next", "grab_next_visits", []string{"visit_type", "count", "policy"},
		[]string{"enabled", "lister_uuid", "lister_name", "lister_instance_name", "timestamp", "absolute_cooldown", "scheduled_cooldown",
			"failed_cooldown", "not_found_cooldown", "tablesample", "dry_run"}, grabNextVisits,
		"Picks origins to visit next by a policy, marks them as scheduled, and returns them.")
	add("visit_stats/upsert", "origin_visit_stats_upsert", []string{"origin_visit_stats"}, none, upsertVisitStats,
		"Writes what is known of the visits of origins.")
	add("visit_stats/get", "origin_visit_stats_get", []string{"ids"}, none, getVisitStats,
		"Returns what is known of the visits of origins.")
	add("visit_scheduler/get", "visit_scheduler_queue_position_get", none, none, getQueuePositions,
		"Returns how far the queue of each visit type has been worked through.")
	add("visit_scheduler/set", "visit_scheduler_queue_position_set", []string{"visit_type", "position"}, none, setQueuePosition,
		"Says how far the queue of a visit type has been worked through.")
	add("scheduler_metrics/update", "update_metrics", none, []string{"lister_id", "timestamp"}, updateMetrics,
		"Counts the origins of a lister, or of all, and returns the counts.")
	add("scheduler_metrics/get", "get_metrics", none, []string{"lister_id", "visit_type"}, getMetrics,
		"Returns the counts of origins as they were last made.")
	return append(all, graphEndpoints...)
}()
