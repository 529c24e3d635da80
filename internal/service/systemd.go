package service

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// systemdPeriod is the time between notifications of changes.
const systemdPeriod = time.Second

// Systemd notifies systemd, if the unit has Type=notify, when the daemon is ready, which services it waits for, and
// that it stops. At half the interval of WatchdogSec it notifies that the daemon is alive. It returns when ctx ends.
func Systemd(ctx context.Context, h *Health, log *slog.Logger) {
	tell := func(state string) bool {
		supported, err := daemon.SdNotify(false, state)
		if err != nil {
			log.Debug("systemd was not notified", "state", state, "error", err)
		}
		return supported
	}
	if !tell("STATUS=starting") {
		return
	}
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("systemd's watchdog is not notified: its settings are not valid", "error", err)
	}
	tick := time.NewTicker(systemdPeriod)
	defer tick.Stop()
	var fed time.Time
	ready, last := false, ""
	for {
		status := "working"
		if waits := h.NotReady(); len(waits) > 0 {
			status = strings.Join(waits, "; ")
		} else if !ready {
			ready = true
			tell(daemon.SdNotifyReady)
		}
		if status != last {
			last = status
			tell("STATUS=" + status)
		}
		if watchdog > 0 && time.Since(fed) >= watchdog/2-systemdPeriod && len(h.StuckLoops()) == 0 {
			fed = time.Now()
			tell(daemon.SdNotifyWatchdog)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tell(daemon.SdNotifyStopping)
			return
		}
	}
}
