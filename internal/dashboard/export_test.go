package dashboard

import "time"

// Patient has pages wait for all that they show, however slow the machine.
func (d *Dashboard) Patient() {
	d.timeout = time.Minute
	d.now.figures.wait, d.now.ended.wait = time.Minute, time.Minute
	d.now.queues.wait, d.now.groups.wait, d.now.lanes.wait, d.now.hosters.wait = time.Minute, time.Minute, time.Minute, time.Minute
}
