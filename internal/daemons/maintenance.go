package daemons

import (
	"slices"

	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/service"
)

// keeper returns a component that runs the given jobs, then the maintenance jobs that need only the database.
func keeper(p *process.Process, others ...maintenance.Job) service.Component {
	k := maintenance.Keeper{Store: p.Store, Log: p.Log, Jobs: slices.Concat(others, []maintenance.Job{
		maintenance.Graphs(p.Store), maintenance.SetAside(p.Store, p.Log), maintenance.OldRows(p.Store, p.Log), maintenance.SumEnded(p.Store), maintenance.Failures(p.Store), maintenance.Running(p.Store), maintenance.Figures(p.Store), maintenance.CandidateChanges(p.Store, p.Log),
	}, maintenance.Counts(p.Store))}
	return service.Component{Name: "keeper", Run: k.Run}
}
