package explain

import "swh-scheduler/sql"

// waitsInLine tells of work that waits in the line of a lane.
func (e *Explanation) waitsInLine(p sql.LanePlace) {
	e.Summary = "It is scheduled, and waits in line for a slot of lane " + p.Lane + "."
	if p.TimedOut > 0 {
		e.because("Its time was over in %d lanes before; it goes on in this one, ahead of all that was not tried before.", p.TimedOut)
	}
	e.because("It was claimed at %s, and waits in this line since %s, with %d before it.", e.at(p.Claimed), e.at(p.Since), p.Ahead)
	e.because("How full the lane is: swh-scheduler lanes status %s", p.Line)
}

// describeLane tells of work that was sent on a lane.
func (e *Explanation) describeLane(p sql.LanePlace) {
	e.because("It was sent on lane %s, to queue %s, at %s.", p.Lane, p.Queue, e.at(p.Since))
	if p.Started != nil {
		e.because("Its time there is over at %s.", e.at(p.Started.Add(p.Limit)))
	} else {
		e.because("Its time there is %s from when a worker begins it.", Roughly(p.Limit))
	}
	if p.TimedOut > 0 {
		e.because("Its time was over in %d lanes before.", p.TimedOut)
	}
}

// describeLanes tells that work goes by lanes, whose queues others describe.
func (e *Explanation) describeLanes(line string) {
	e.because("It goes by lanes: how full they are tells swh-scheduler lanes status %s.", line)
}
