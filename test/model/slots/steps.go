package slots

import "swh-scheduler/test/model/check"

// world takes the steps.
type world struct {
	scope Scope
	rules Rules
	to    *check.Steps[State]
}

// claims takes the next step of each process's claim.
func (w world) claims(s State) {
	for p := range w.scope.Claimers {
		w.claimStep(s, p)
	}
}

// claimStep observes, then counts and claims under the lock of the queue.
func (w world) claimStep(s State, p int) {
	me := s.Processes[p]
	if me.Cut {
		return
	}
	switch me.Claim {
	case Idle:
		if s.rows(Waiting) == 0 {
			return
		}
		s.markO(p)
		s.Processes[p].Claim = AfterO
		w.to.To(s, "%d: moment O", p)
	case AfterO:
		s.readFigures(p)
		w.to.To(s, "%d: figures of the management API", p)
	case Figures:
		next := s
		next.markD(p)
		next.Processes[p].Claim = AfterD
		w.to.To(next, "%d: moment D", p)
		if w.rules.HostClock || w.rules.NoStatsAge {
			s.markO(p)
			w.to.Fault(s, "%d: O comes out later than the figures", p)
		}
	case AfterD:
		if s.Left.Silences > 0 {
			silent := s
			silent.Left.Silences--
			silent.Processes[p].Claim = Declared
			w.to.Fault(silent, "%d: passive declare that the leader doesn't answer", p)
		}
		s.declare(p)
		w.to.To(s, "%d: passive declare", p)
	case Declared:
		if late := s; w.rules.HostClock {
			late.markD(p)
			w.to.Fault(late, "%d: D comes out later than the passive declare", p)
		}
		switch {
		case w.rules.NoLock:
		case s.Lock != 0:
			return
		default:
			s.Lock = uint8(p + 1)
		}
		s.countDeliveries(p)
		if w.rules.TwoStatements {
			s.Processes[p].Claim = Half
			w.to.To(s, "%d: lock, deliveries", p)
			return
		}
		s.countOutgoing(p)
		w.to.To(s, "%d: lock, snapshot S", p)
	case Half:
		s.countOutgoing(p)
		w.to.To(s, "%d: outgoing rows", p)
	case Counted:
		if s.Lock != 0 && s.Lock != uint8(p+1) {
			return
		}
		s.claim(p, w.scope.Limit-w.bound(me))
		w.to.To(s, "%d: claim", p)
	}
}

// markO makes now the moment O of a process, after all recorded deliveries.
func (s *State) markO(p int) {
	for i := range s.Messages {
		for j := range s.Messages[i].Records {
			s.Messages[i].Records[j].AfterO &^= 1 << p
		}
		s.Messages[i].Early.AfterO &^= 1 << p
	}
}

func (s *State) markD(p int) {
	for i := range s.Messages {
		for j := range s.Messages[i].Records {
			s.Messages[i].Records[j].AfterD &^= 1 << p
		}
		s.Messages[i].Early.AfterD &^= 1 << p
	}
}

func (s *State) readFigures(p int) {
	me := &s.Processes[p]
	me.Claim, me.ReadyO, me.UnackedO, me.PrefetchO = Figures, s.count(Ready), s.count(Running, Ended), s.Consumers
}

func (s *State) declare(p int) {
	me := &s.Processes[p]
	me.Claim, me.ReadyD, me.ConsumersD = Declared, s.count(Ready), s.Consumers
}

// countDeliveries reads R[O,D) and R[D,S].
func (s *State) countDeliveries(p int) {
	me := &s.Processes[p]
	for _, m := range s.Messages {
		for _, r := range m.Records {
			switch afterO, afterD := r.AfterO>>p&1, r.AfterD>>p&1; {
			case afterD == 1:
				me.FromD++
			case afterO == 1:
				me.FromO++
			}
		}
	}
}

func (s *State) countOutgoing(p int) {
	s.Processes[p].Outgoing, s.Processes[p].Claim = s.rows(Outgoing), Counted
}

// bound returns the upper bound of the queue's messages.
func (w world) bound(c Process) int {
	recent := int(c.FromO)
	if w.rules.OneAge {
		recent = 0
	}
	unacked := int(c.UnackedO) + max(0, int(c.ReadyO)+recent-int(c.ReadyD))
	answered := c.ReadyD > 0 || c.ConsumersD > 0 || w.rules.TrustsSilence
	if answered && (c.ConsumersD <= c.PrefetchO || w.rules.PrefetchOfO) {
		unacked = min(unacked, max(int(c.PrefetchO), int(c.UnackedO)))
	}
	outgoing := int(c.Outgoing)
	if w.rules.NoUnacked {
		unacked = 0
	}
	if w.rules.NoOutgoing {
		outgoing = 0
	}
	return int(c.ReadyD) + unacked + int(c.FromD) + outgoing
}

// claim makes waiting messages outgoing, as many as are free, and ends the claim.
func (s *State) claim(p int, free int) {
	for i := range s.Messages {
		if s.Messages[i].Row == Waiting && free > 0 {
			s.Messages[i].Row = Outgoing
			free--
		}
	}
	s.endClaim(p)
}

func (s *State) endClaim(p int) {
	if s.Lock == uint8(p+1) {
		s.Lock = 0
	}
	s.markO(p)
	s.markD(p)
	s.Processes[p] = Process{Cut: s.Processes[p].Cut}
}

// stamp returns a record of a delivery now.
func (s *State) stamp() (r Record) {
	for p, me := range s.Processes {
		if me.Claim >= AfterO {
			r.AfterO |= 1 << p
		}
		if me.Claim >= AfterD {
			r.AfterD |= 1 << p
		}
	}
	return r
}

// record writes that a message was delivered.
func (s *State) record(m *Message, r Record) {
	if r == (Record{}) {
		return // no claim in progress will read it
	}
	for i := range m.Records {
		if m.Records[i] == (Record{}) {
			m.Records[i] = r
			return
		}
	}
}

// deliveries takes the steps of deliverers with each message.
func (w world) deliveries(s State) {
	for i := range s.Messages {
		for p := range s.Processes {
			w.deliver(s, i, p)
		}
	}
}

func (w world) deliver(s State, i, p int) {
	m, me := &s.Messages[i], s.Processes[p]
	free := m.Locked == 0 || m.Locked == uint8(p+1)
	forgets := w.rules.ForgetsHand && m.Hand[p] != None
	switch {
	case (m.Hand[p] == None || forgets) && !me.Cut && m.Row == Outgoing && m.Locked == 0 && m.Lease == 0:
		m.Hand[p], m.Locked = InHand, uint8(p+1)
		w.to.To(s, "%d: read row %d", p, i)
	case m.Hand[p] == InHand:
		w.publish(s, i, p)
	case m.Hand[p] == Published:
		if !m.isOnTheWay(p) {
			answered := s
			answered.Messages[i].Hand[p] = Confirmed
			w.to.To(answered, "%d: %d is confirmed", p, i)
		}
		if !me.Cut && free && m.Row == Outgoing && (m.Lease == 0 || m.Locked != 0) {
			w.lease(s, i, p)
		}
	case m.Hand[p] == Confirmed && !me.Cut && free:
		s.confirm(i, p, w.rules)
		w.to.To(s, "%d: write that %d is confirmed", p, i)
	case m.Hand[p] == Confirmed && m.Locked != uint8(p+1) && w.rules.ForgetsConfirmed:
		m.Hand[p] = None
		w.to.To(s, "%d: can't write that %d is confirmed", p, i)
	case m.Hand[p] == Lost && !me.Cut && free:
		if m.Lease == uint8(p+1) || w.rules.FreesOthers {
			m.Lease = 0
		}
		m.Hand[p], m.Locked = None, 0
		w.to.To(s, "%d: free row %d", p, i)
	}
}

func (m *Message) isOnTheWay(p int) bool {
	for _, c := range m.Copies {
		if c == (Copy{OnTheWay, uint8(p + 1)}) {
			return true
		}
	}
	return false
}

// publish sends a message. The scope has at most three copies.
func (w world) publish(s State, i, p int) {
	m := &s.Messages[i]
	for c := range m.Copies {
		if m.Copies[c].At != Nowhere {
			continue
		}
		m.Copies[c] = Copy{OnTheWay, uint8(p + 1)}
		m.Hand[p] = Published
		m.TwiceByOne = m.TwiceByOne || m.Carried[p]
		m.Carried[p] = true
		m.Sent++
		m.Early = Record{}
		if w.rules.StampEarly {
			m.Early = s.stamp()
		}
		if w.rules.SentAtOnce && m.Row == Outgoing {
			m.Row, m.Locked = Sent, 0
		}
		w.to.To(s, "%d: publish %d", p, i)
		return
	}
}

// lease ends a batch with an unanswered message: no other process sends it.
func (w world) lease(s State, i, p int) {
	m := &s.Messages[i]
	if !w.rules.NoLease {
		m.Lease = uint8(p + 1)
	} else if m.Locked == 0 {
		return
	}
	m.Locked = 0
	w.to.To(s, "%d: lease row %d", p, i)
}

// confirm writes a confirmation, in its batch or later.
func (s *State) confirm(i, p int, rules Rules) {
	m := &s.Messages[i]
	r := s.stamp()
	if rules.StampEarly {
		r = m.Early
	}
	if m.Row == Outgoing {
		m.Row = Sent
		s.record(m, r)
	} else if !rules.GoneUnrecorded {
		s.record(m, r)
	}
	m.Hand[p], m.Locked, m.Lease = None, 0, 0
}

// broker takes the steps of the broker, of workers and of the listener.
func (w world) broker(s State) {
	for i := range s.Messages {
		for c := range s.Messages[i].Copies {
			w.carry(s, i, c)
		}
		m := s.Messages[i]
		if m.Event && m.Locked == 0 {
			ended := s
			ended.applyEnd(i, w.rules)
			w.to.To(ended, "the end of %d is applied", i)
		}
		if m.Lease == orphan && !w.rules.LeaseForever {
			ended := s
			ended.Messages[i].Lease = 0
			w.to.To(ended, "the lease of %d ends", i)
		}
	}
}

// applyEnd applies the event of an end.
func (s *State) applyEnd(i int, rules Rules) {
	m := &s.Messages[i]
	if m.Row == Outgoing && !rules.EndUnrecorded {
		s.record(m, s.stamp()) // it is at the broker, confirmed or not
	}
	m.Row, m.Lease, m.Event = Gone, 0, false
}

// carry takes the steps of a copy.
func (w world) carry(s State, i, c int) {
	m, unacked := &s.Messages[i], s.count(Running, Ended)
	at := &m.Copies[c].At
	from := m.Copies[c].From
	step := func(next Place, name string) {
		*at, m.Copies[c].From = next, 0
		w.to.To(s, name, i)
	}
	switch *at {
	case OnTheWay:
		if from == 0 {
			lost := s
			lost.Messages[i].Copies[c] = Copy{}
			w.to.To(lost, "%d is lost with its connection", i)
		}
		step(Ready, "%d is in the queue")
	case Ready:
		if w.rules.Recall {
			back := s
			back.Messages[i].Returned++
			if back.Messages[i].Returned == 2 {
				back.Messages[i].Copies[c] = Copy{}
			}
			if back.Messages[i].Returned <= 2 {
				w.to.Fault(back, "%d is recalled, and returned as that takes too long", i)
			}
		}
		if unacked < s.Consumers {
			step(Running, "a worker takes %d")
		}
	case Running:
		if !w.scope.Slow {
			early := s
			early.Messages[i].Copies[c].At = Acked
			w.to.To(early, "%d is acknowledged early", i)
		}
		m.Executed, m.Event = true, m.Row != Gone
		step(Ended, "%d ends")
	case Acked:
		m.Executed, m.Event = true, m.Row != Gone
		step(Nowhere, "%d ends")
	case Ended:
		step(Nowhere, "%d is acknowledged")
	}
}

// faults takes the remaining faults.
func (w world) faults(s State) {
	for p := range s.Processes {
		if wrong := s; w.rules.EndsHealthy {
			wrong.disconnect(p)
			for i, m := range s.Messages {
				wrong.Messages[i].Excused = m.Excused // nothing was lost
			}
			w.to.Fault(wrong, "%d ends a connection that works", p)
		}
		if s.Left.Crashes > 0 {
			dead := s
			dead.Left.Crashes--
			dead.crash(p)
			w.to.Fault(dead, "%d dies, and is started again", p)
		}
		if s.Left.Disconnects > 0 {
			gone := s
			gone.Left.Disconnects--
			gone.disconnect(p)
			w.to.Fault(gone, "%d loses its connection to the broker", p)
		}
		switch {
		case s.Processes[p].Cut:
			back := s
			back.Processes[p].Cut = false
			w.to.To(back, "%d reaches the database again", p)
			for i := range s.Messages {
				if s.Messages[i].Lease == uint8(p+1) {
					ended := s
					ended.Messages[i].Lease = 0
					w.to.Fault(ended, "the lease of %d, which %d can't renew, ends", i, p)
				}
			}
		case s.Left.Cuts > 0:
			cut := s
			cut.Left.Cuts--
			cut.cut(p)
			w.to.Fault(cut, "%d loses its connections to the database", p)
		}
	}
	if s.Left.Consumers > 0 {
		more := s
		more.Left.Consumers--
		more.Consumers++
		w.to.Fault(more, "another worker comes")
	}
	for i := range s.Messages {
		for c, held := range s.Messages[i].Copies {
			if s.Left.Redeliveries > 0 && (held.At == Running || held.At == Ended) {
				again := s
				again.Left.Redeliveries--
				again.Messages[i].Copies[c].At = Ready
				w.to.Fault(again, "RabbitMQ delivers %d again", i)
			}
		}
	}
}

// cut ends the transactions of a process. Another process may then send what it holds.
func (s *State) cut(p int) {
	s.Processes[p].Cut = true
	s.endClaim(p)
	for i := range s.Messages {
		m := &s.Messages[i]
		m.excuse(p)
		if m.Locked == uint8(p+1) {
			m.Locked = 0
		}
	}
}

// excuse allows one more publication of a message that a process holds, unless another one has taken it over.
func (m *Message) excuse(p int) {
	other := uint8(2 - p) // as it is written in rows
	if m.Hand[p] == None || m.Locked == other || m.Lease == other {
		return
	}
	sent := m.Sent
	for _, phase := range m.Hand {
		if phase == InHand {
			sent++ // it is still published
		}
	}
	m.Excused = max(m.Excused, sent)
}

// disconnect ends a connection to the broker. Unanswered messages may be there or not.
func (s *State) disconnect(p int) {
	for i := range s.Messages {
		m := &s.Messages[i]
		if m.Hand[p] == Published {
			m.excuse(p)
			m.Hand[p] = Lost
		}
		if m.Hand[p] != Confirmed {
			m.Carried[p] = false
		}
		for c := range m.Copies {
			if m.Copies[c] == (Copy{OnTheWay, uint8(p + 1)}) {
				m.Copies[c].From = 0
			}
		}
	}
}

// crash ends a process. Another one without memory replaces it.
func (s *State) crash(p int) {
	s.endClaim(p)
	s.Processes[p] = Process{}
	for i := range s.Messages {
		m := &s.Messages[i]
		m.excuse(p)
		m.Hand[p], m.Carried[p] = None, false
		if m.Locked == uint8(p+1) {
			m.Locked = 0
		}
		if m.Lease == uint8(p+1) {
			m.Lease = orphan
		}
		for c := range m.Copies {
			if m.Copies[c] == (Copy{OnTheWay, uint8(p + 1)}) {
				m.Copies[c].From = 0
			}
		}
	}
}
