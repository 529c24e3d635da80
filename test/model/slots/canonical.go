package slots

import (
	"cmp"
	"slices"
)

// canonical returns one of the states that differ only in names: of messages, of copies and, if both processes claim,
// of processes.
func canonical(s State, swap bool) State {
	for i := range s.Messages {
		s.Messages[i].forget()
	}
	s.sort()
	if !swap {
		return s
	}
	other := s
	other.swap()
	other.sort()
	if compare(other, s) < 0 {
		return other
	}
	return s
}

// forget clears what has no further effect.
func (m *Message) forget() {
	sent := m.Row == Sent || m.Row == Gone
	if sent && !slices.Contains(m.Hand[:], InHand) && m.Sent <= 1+m.Excused && !m.TwiceByOne {
		m.Excused, m.Carried = max(m.Sent, 1)-1, [processes]bool{}
		if m.Sent == 1 || m.count(OnTheWay, Ready, Running, Acked, Ended) == 0 {
			m.Sent, m.Excused = 0, 0
		}
	}
	if m.Row == Gone {
		m.Event = false
		m.Executed = m.Executed || m.count(Ready, Running, Acked, Ended) > 0
	}
}

func (s *State) sort() {
	for i := range s.Messages {
		m := &s.Messages[i]
		slices.SortFunc(m.Copies[:], func(a, b Copy) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.From, b.From)) })
		slices.SortFunc(m.Records[:], func(a, b Record) int {
			return cmp.Or(cmp.Compare(a.AfterO, b.AfterO), cmp.Compare(a.AfterD, b.AfterD))
		})
	}
	slices.SortFunc(s.Messages[:], func(a, b Message) int { return cmp.Compare(a.order(), b.order()) })
}

// order returns a number that differs for different messages.
func (m Message) order() (n uint64) {
	add := func(bits int, v uint8) { n = n<<bits | uint64(v) }
	flag := func(b bool) uint8 {
		if b {
			return 1
		}
		return 0
	}
	add(2, uint8(m.Row))
	add(2, m.Locked)
	add(2, m.Lease)
	for _, h := range m.Hand {
		add(3, uint8(h))
	}
	for _, c := range m.Copies {
		add(3, uint8(c.At))
		add(2, c.From)
	}
	for _, r := range append(m.Records[:], m.Early) {
		add(2, r.AfterO)
		add(2, r.AfterD)
	}
	add(3, m.Sent)
	add(3, m.Excused)
	add(2, m.Returned)
	for _, b := range [...]bool{m.Event, m.Executed, m.TwiceByOne, m.Carried[0], m.Carried[1]} {
		add(1, flag(b))
	}
	return n
}

func compare(a, b State) int {
	for i := range a.Messages {
		if c := cmp.Compare(a.Messages[i].order(), b.Messages[i].order()); c != 0 {
			return c
		}
	}
	for i := range a.Processes {
		if c := cmp.Compare(a.Processes[i].order(), b.Processes[i].order()); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.Lock, b.Lock)
}

func (p Process) order() (n uint64) {
	if p.Cut {
		n = 1
	}
	for _, v := range [...]uint8{uint8(p.Claim), p.ReadyO, p.UnackedO, p.PrefetchO, p.ReadyD, p.ConsumersD, p.FromO, p.FromD, p.Outgoing} {
		n = n<<4 | uint64(v)
	}
	return n
}

// swap exchanges the names of the two processes.
func (s *State) swap() {
	name := func(p uint8) uint8 {
		switch p {
		case 1:
			return 2
		case 2:
			return 1
		}
		return p
	}
	bits := func(b uint8) uint8 { return b>>1&1 | b&1<<1 }
	s.Lock = name(s.Lock)
	slices.Reverse(s.Processes[:])
	for i := range s.Messages {
		m := &s.Messages[i]
		m.Locked, m.Lease = name(m.Locked), name(m.Lease)
		slices.Reverse(m.Hand[:])
		slices.Reverse(m.Carried[:])
		for c := range m.Copies {
			m.Copies[c].From = name(m.Copies[c].From)
		}
		for r := range m.Records {
			m.Records[r] = Record{bits(m.Records[r].AfterO), bits(m.Records[r].AfterD)}
		}
		m.Early = Record{bits(m.Early.AfterO), bits(m.Early.AfterD)}
	}
}
