package taskgraph

import (
	"fmt"
	"slices"
	"strings"

	"swh-scheduler/sql/graphs"
)

// inOrder sorts tasks so that each comes after its dependencies (Kahn's algorithm) and renumbers DependsOn. A task
// may depend on itself; a longer cycle is an error.
func inOrder(tasks []graphs.NewTask) ([]graphs.NewTask, error) {
	left := make([]int, len(tasks)) // number of dependencies that are not in order yet
	dependents := make([][]int, len(tasks))
	var order []int
	for i, t := range tasks {
		for _, d := range t.DependsOn {
			if d.Task == 0 && d.Place != i {
				left[i]++
				dependents[d.Place] = append(dependents[d.Place], i)
			}
		}
		if left[i] == 0 {
			order = append(order, i)
		}
	}
	for next := 0; next < len(order); next++ {
		for _, d := range dependents[order[next]] {
			if left[d]--; left[d] == 0 {
				order = append(order, d)
			}
		}
	}
	if len(order) < len(tasks) {
		return nil, cycle(tasks, left)
	}
	place := make([]int, len(tasks))
	for at, i := range order {
		place[i] = at
	}
	ordered := make([]graphs.NewTask, len(tasks))
	for at, i := range order {
		t := tasks[i]
		for k, d := range t.DependsOn {
			if d.Task == 0 {
				t.DependsOn[k].Place = place[d.Place]
			}
		}
		ordered[at] = t
	}
	return ordered, nil
}

// cycle returns the error for a cycle among the tasks that have dependencies left. Each of them depends on another
// one of them, so following the dependencies leads into a cycle.
func cycle(tasks []graphs.NewTask, left []int) error {
	at := slices.IndexFunc(left, func(n int) bool { return n > 0 })
	seen := map[int]int{} // by task: its index in path
	var path []int
	for {
		if first, again := seen[at]; again {
			return fmt.Errorf("the tasks depend on each other in a circle: %s", circle(tasks, append(path[first:], at)))
		}
		seen[at] = len(path)
		path = append(path, at)
		d := slices.IndexFunc(tasks[at].DependsOn, func(d graphs.NewDependency) bool {
			return d.Task == 0 && d.Place != at && left[d.Place] > 0
		})
		at = tasks[at].DependsOn[d].Place
	}
}

// circle lists at most a dozen tasks of a cycle.
func circle(tasks []graphs.NewTask, path []int) string {
	const most = 12
	var names []string
	for i, at := range path {
		if len(path) > most && i == most/2 {
			names = append(names, fmt.Sprintf("… (%d more)", len(path)-most))
		}
		if len(path) <= most || i < most/2 || i >= len(path)-most/2 {
			names = append(names, fmt.Sprintf("%q", tasks[at].Name))
		}
	}
	return strings.Join(names, " → ")
}
