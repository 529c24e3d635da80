package chaos

import (
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"swh-scheduler/internal/testenv"
)

var databaseFaults = []fault{
	{"database connections of all daemons silent", "postgres", 0, func(c *cluster, _ *rand.Rand) (string, harm, func()) {
		for _, d := range c.daemons {
			silence(d.database...)
		}
		return "all", harm{c.daemons, all}, nothing
	}},
	{"PostgreSQL primary killed, standby promoted", "postgres", 0, func(c *cluster, _ *rand.Rand) (string, harm, func()) {
		c.database.Kill()
		return "all", harm{c.daemons, all}, c.database.Promote
	}},
	// The daemons' commits succeed, on the standby, too, but their answers are lost.
	{"PostgreSQL primary killed between commits and their answers, standby promoted", "postgres", 0, func(c *cluster, _ *rand.Rand) (string, harm, func()) {
		var ways []*testenv.Toxic
		for _, d := range c.named("rpc-serve") {
			ways = append(ways, d.database...)
		}
		reached := make(chan struct{}, len(ways))
		for _, way := range ways {
			held := way.Hold(testenv.Commits, 0)
			go func() {
				select {
				case <-held:
					reached <- struct{}{}
				case <-c.t.Context().Done():
				}
			}()
		}
		hit := "no answer was under way"
		select {
		case <-reached:
			hit = "all"
			<-time.After(300 * time.Millisecond) // more of them
		case <-time.After(5 * time.Second):
		}
		c.database.Kill()
		restore := cut(ways) // held answers are lost
		restore()
		return hit, harm{c.daemons, all}, c.database.Promote
	}},
}

// diskMiB is the size of each disk of PostgreSQL.
const diskMiB = 1024

// disks reports whether PostgreSQL's servers can have disks of their own.
func disks() bool { return runtime.GOOS == "linux" && os.Geteuid() == 0 }

var diskFaults = []fault{
	{"disk of PostgreSQL's data full", "postgres", 15 * time.Second, func(c *cluster, _ *rand.Rand) (string, harm, func()) {
		return c.fillDisk(false)
	}},
	{"disk of PostgreSQL's WAL full", "postgres", 15 * time.Second, func(c *cluster, _ *rand.Rand) (string, harm, func()) {
		return c.fillDisk(true)
	}},
}

// fillDisk fills a disk of the primary, and later frees it. It restarts a primary that has died of the full disk, as
// systemd does.
func (c *cluster) fillDisk(wal bool) (string, harm, func()) {
	c.database.FillDisk(wal)
	return "primary", harm{c.daemons, all}, func() {
		if c.database.FreeDisk() {
			c.t.Log("PostgreSQL had died of it")
		}
	}
}
