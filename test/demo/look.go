package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"swh-scheduler/internal/testenv"
)

// lookAround starts the dashboard and Prometheus, and prints their addresses and the command that stops all.
func (s *story) lookAround(w io.Writer) {
	dashboard := s.freePort()
	s.start(dashboardDaemon.name, append([]string{s.Scheduler, "-C", s.configs[dashboardDaemon.name]}, strings.Fields(dashboardDaemon.command+" "+fmt.Sprint(dashboard))...)...)
	prometheus := s.startPrometheus()
	s.listens(fmt.Sprint("127.0.0.1:", dashboard))
	_, _ = fmt.Fprintf(w, `Everything is left running. To look around:

  dashboard: http://127.0.0.1:%d/
  Prometheus: %s
  Grafana: %s
  export SWH_CONFIG_FILENAME=%s
  %s task add load-git --policy oneshot --priority high url=%s
  psql '%s' (the scheduler)
  psql '%s' (the storage)
  RabbitMQ: %s, virtual host %s
  Kafka: %s, topics %s.*
  forges: %s, %s; packages: %s/gnu/
  logs: %s/*.log

To stop it: make demo-stop (or %s -stop)
`, dashboard, prometheus, grafana, s.config, s.Scheduler, s.world.of(wanted)[0].URL, s.servers.scheduler, s.storage, s.broker.ManagementURL, s.virtualHost(),
		strings.Join(s.kafka, ","), s.journal, s.world.forges[large].URL, s.world.forges[small].URL, s.world.packages.URL, s.dir, os.Args[0])
}

// grafana says why there is no Grafana.
const grafana = "not started, as Debian has no package of it; deploy/grafana has the dashboard, for this Prometheus"

// startPrometheus starts Prometheus with the daemons' metrics and the alerts. It returns its URL, or why it wasn't
// started.
func (s *story) startPrometheus() string {
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		return "not installed (apt-get install prometheus)"
	}
	alerts, err := filepath.Abs("deploy/prometheus/alerts.yml")
	s.must(err)
	address := s.freeAddress()
	config := s.write("prometheus.yml", fmt.Sprintf("global: {scrape_interval: 5s}\nrule_files: [%q]\n"+
		"scrape_configs:\n- {job_name: swh-scheduler, static_configs: [{targets: [%s]}]}\n", alerts, strings.Join(s.metrics, ", ")))
	s.start("prometheus", prometheus, "--config.file", config, "--storage.tsdb.path", filepath.Join(s.dir, "prometheus"),
		"--web.listen-address", address)
	s.listens(address)
	return "http://" + address + "/"
}

// listens returns once a server listens at the address.
func (s *story) listens(address string) {
	testenv.Becomes(s.program, "a server at "+address, true, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}
