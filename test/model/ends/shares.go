package ends

import "swh-scheduler/test/model/check"

const (
	workers  = 2
	halfLife = 4  // ticks
	lostIn   = 16 // ticks until started work without events is given up
	horizon  = 50 // ticks
	second   = 64 // the charge of a tick
)

// Groups are two groups of equal weight that share a queue. Each message takes a tick.
type Groups struct {
	Now     uint8
	Used    [2]uint16   // recent use, in 64ths of a tick; halved each half-life
	Stuck   [2][2]uint8 // ages, from 1, of work whose worker died or whose end was lost
	Since   [2]uint8    // ticks since a group's last slot
	Running [2]uint8
	Idle    bool // a worker was idle although a group below its ceiling had work
	Deaths  uint8
}

// GroupRules are the correct rules with at most one mistake.
type GroupRules struct {
	Unbounded  bool // running work counts with its age, without a bound
	NeverLost  bool // started work is not given up
	ToEach     bool // slots that a group at its ceiling leaves stay free
	WorkersAge bool // the sending time doesn't bound the start: a worker's clock is at 1970
}

// Shares is a model of two groups that share a queue. The first group may have a ceiling of one message in flight. A
// running message counts for a half-life at most. A group has its share again within two half-lives, or at its
// ceiling once lost work is given up.
func Shares(ceiling bool, deaths uint8, rules GroupRules) check.Model[Groups] {
	bound := uint8(2 * halfLife)
	if ceiling {
		bound = lostIn + 2
	}
	return check.Model[Groups]{
		Initial: Groups{Deaths: deaths},
		Next: func(g Groups, to *check.Steps[Groups]) {
			if g.Now == horizon {
				return
			}
			next := g
			next.tick(ceiling, rules)
			to.To(next, "a tick")
			for group := range g.Stuck {
				if dead := g; g.Deaths > 0 && g.Running[group] > 0 && dead.die(group, rules) {
					to.Fault(dead, "a worker dies with work of group %d", group)
				}
			}
		},
		Always: []check.Property[Groups]{
			{Name: "a group's part comes back", Holds: func(g Groups) bool { return g.Since[0] <= bound && g.Since[1] <= bound }},
			{Name: "no worker is idle while work may run", Holds: func(g Groups) bool { return !g.Idle }},
		},
	}
}

// die kills a worker with work of a group, which stays in the ledger.
func (g *Groups) die(group int, rules GroupRules) bool {
	g.Deaths--
	for i, age := range g.Stuck[group] {
		if age == 0 {
			g.Stuck[group][i] = 1
			if rules.WorkersAge {
				g.Stuck[group][i] = 200
			}
			g.Running[group]--
			return true
		}
	}
	return false
}

// tick ends running work, gives up lost work, and fills the workers again.
func (g *Groups) tick(ceiling bool, rules GroupRules) {
	g.Now++
	for group := range g.Used {
		g.Used[group] = uint16(uint32(g.Used[group])*215/256) + uint16(g.Running[group])*second // 215/256 is 2^(−1/4)
		g.Running[group] = 0
		for i, age := range g.Stuck[group] {
			if age > 0 {
				g.Stuck[group][i]++
			}
			if age >= lostIn && !rules.NeverLost && !rules.WorkersAge {
				g.Stuck[group][i] = 0
			}
		}
		g.Since[group]++
	}
	for range workers {
		group := 0
		open := !ceiling || g.Running[0]+g.stuck(0) < 1
		if g.load(1, rules) < g.load(0, rules) || !open && !rules.ToEach {
			group = 1
		}
		if group == 0 && !open {
			g.Idle = true
			return
		}
		g.Running[group]++
		g.Since[group] = 0
	}
}

func (g *Groups) stuck(group int) (n uint8) {
	for _, age := range g.Stuck[group] {
		if age > 0 {
			n++
		}
	}
	return n
}

// load returns a group's recent use and its running work.
func (g *Groups) load(group int, rules GroupRules) int {
	load := int(g.Used[group]) + second*int(g.Running[group])
	for _, age := range g.Stuck[group] {
		if !rules.Unbounded && !rules.WorkersAge {
			age = min(age, halfLife)
		}
		load += second * int(age)
	}
	return load
}
