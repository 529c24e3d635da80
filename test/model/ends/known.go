package ends

import "swh-scheduler/test/model/check"

const (
	items     = 3 // events and markers in the queue
	listeners = 2
	lastDate  = 3
)

// EventQueue is the queue of events, with two listeners, and the moment up to which ends are known.
type EventQueue struct {
	Now   uint8
	Items [items]Item // in the order in which they were published
	Count uint8
	Known uint8 // ends are known up to this date

	Marker   uint8 // the item that is the marker, from 1
	AckedAt  uint8 // the time of its acknowledgement
	Void     bool  // a listener died since its publication
	NoUnread bool  // with the mistake TwoMoments: no message was unacknowledged
	Asked    uint8 // the time of that observation
	Crashes  uint8
}

// Item is a message of the event queue.
type Item struct {
	Date   uint8 // of its publication
	Reader uint8 // the listener that holds it, from 1
	Taken  uint8 // since when
	Done   bool  // acknowledged: its content is written
}

// KnownRules are the correct rules with at most one mistake.
type KnownRules struct {
	Now            bool // all is known up to now
	ReadyOnly      bool // no ready messages are enough
	TwoMoments     bool // no ready messages now, and no unacknowledged ones a while ago
	MarkerAlone    bool // all is known up to a marker that was acknowledged
	LessTheLongest bool // all is known up to the marker's date less the age of the oldest batch
	Survives       bool // a marker counts although a listener died since its publication
}

// KnownUpTo is a model of the moment up to which ends are known. That is the last observation of the event queue
// without ready and unacknowledged messages. Or it is the date of a marker that was published to the queue and
// acknowledged, if no listener has died since. In that case all messages delivered before the acknowledgement must be
// acknowledged, too.
func KnownUpTo(crashes uint8, rules KnownRules) check.Model[EventQueue] {
	return check.Model[EventQueue]{
		Initial: EventQueue{Crashes: crashes},
		Next:    func(q EventQueue, to *check.Steps[EventQueue]) { q.steps(rules, to) },
		Always: []check.Property[EventQueue]{{Name: "what was sent before the known moment is written", Holds: func(q EventQueue) bool {
			for i, item := range q.Items[:q.Count] {
				if i != int(q.Marker)-1 && item.Date < q.Known && !item.Done {
					return false
				}
			}
			return true
		}}},
	}
}

func (q EventQueue) steps(rules KnownRules, to *check.Steps[EventQueue]) {
	if q.Now < lastDate {
		later := q
		later.Now++
		to.Fault(later, "a second passes")
	}
	if q.Count < items {
		sent := q
		sent.publish()
		to.To(sent, "an event is sent")
		if q.Marker == 0 {
			sent.Marker = sent.Count
			to.To(sent, "a marker is published")
		}
	}
	if next := q.next(); next >= 0 {
		for l := range listeners {
			taken := q
			taken.Items[next].Reader, taken.Items[next].Taken = uint8(l+1), q.Now
			to.To(taken, "listener %d gets item %d", l, next)
		}
	}
	for i, item := range q.Items[:q.Count] {
		if item.Reader > 0 {
			done := q
			done.Items[i] = Item{Date: item.Date, Done: true}
			if i == int(q.Marker)-1 {
				done.AckedAt = q.Now
				if rules.LessTheLongest {
					done.Known = max(q.Known, item.Date-min(item.Date, q.Now-q.oldest(i)))
				}
			}
			to.To(done, "listener %d writes and acknowledges item %d", int(item.Reader)-1, i)
		}
	}
	q.observe(rules, to)
	for l := range listeners {
		if q.Crashes > 0 {
			dead := q
			dead.Crashes--
			dead.Void = dead.Marker > 0
			for i := range dead.Items {
				if dead.Items[i].Reader == uint8(l+1) {
					dead.Items[i].Reader, dead.Items[i].Taken = 0, 0
				}
			}
			to.Fault(dead, "listener %d dies", l)
		}
	}
}

// observe takes the steps that raise the known moment.
func (q EventQueue) observe(rules KnownRules, to *check.Steps[EventQueue]) {
	know := func(date uint8, name string) {
		if date > q.Known {
			next := q
			next.Known = date
			to.To(next, name)
		}
	}
	ready, unacked := q.next() >= 0, q.oldest(-1) < q.Now || q.unacked()
	if rules.Now {
		know(q.Now, "it is now")
	}
	if !ready && (!unacked || rules.ReadyOnly) {
		know(q.Now, "the event queue is seen empty")
	}
	if rules.TwoMoments {
		if !unacked {
			next := q
			next.NoUnread, next.Asked = true, q.Now
			to.To(next, "nothing is unacknowledged")
		}
		if q.NoUnread && !ready {
			know(q.Asked, "nothing is ready")
		}
	}
	if q.Marker == 0 || !q.Items[q.Marker-1].Done || rules.LessTheLongest {
		return
	}
	if rules.MarkerAlone || q.behind() && (!q.Void || rules.Survives) {
		know(q.Items[q.Marker-1].Date, "the marker counts")
	}
}

func (q *EventQueue) publish() {
	q.Items[q.Count] = Item{Date: q.Now}
	q.Count++
}

// next returns the place of the first ready item, or -1.
func (q EventQueue) next() int {
	for i, item := range q.Items[:q.Count] {
		if item.Reader == 0 && !item.Done {
			return i
		}
	}
	return -1
}

func (q EventQueue) unacked() bool {
	for _, item := range q.Items[:q.Count] {
		if item.Reader > 0 {
			return true
		}
	}
	return false
}

// oldest returns since when the oldest item, except but, is unacknowledged; now if none is.
func (q EventQueue) oldest(but int) uint8 {
	since := q.Now
	for i, item := range q.Items[:q.Count] {
		if item.Reader > 0 && i != but {
			since = min(since, item.Taken)
		}
	}
	return since
}

// behind says that all messages delivered before the marker's acknowledgement are acknowledged.
func (q EventQueue) behind() bool {
	for _, item := range q.Items[:q.Count] {
		if item.Reader > 0 && item.Taken <= q.AckedAt {
			return false
		}
	}
	return true
}
