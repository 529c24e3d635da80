package throwaway

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// local runs servers as processes of this machine.
type local struct {
	*reaper
	log *slog.Logger
}

func newLocal(log *slog.Logger) (*local, error) {
	r, err := newReaper()
	if err != nil {
		return nil, err
	}
	return &local{reaper: r, log: log}, nil
}

func (l *local) stop() { l.close() }

// startLocal starts servers on this machine. If start fails, it stops those that were started.
func startLocal[T any](log *slog.Logger, what string, start func(l *local) (T, error)) (started T, stop func(), err error) {
	l, err := newLocal(log)
	if err != nil {
		return started, nil, err
	}
	if started, err = start(l); err != nil {
		l.stop()
		return started, nil, fmt.Errorf("start %s: %w", what, err)
	}
	return started, l.stop, nil
}

// environ returns the environment of servers, without the caller's own settings (PGDATA, RABBITMQ_…,
// JAVA_TOOL_OPTIONS), which are for other servers.
func (l *local) environ(more ...string) []string {
	return append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + os.Getenv("PATH"),
		"HOME=" + l.dir,
		"LC_ALL=C.UTF-8",
	}, more...)
}

// unprivileged makes another user the owner of dir if this process runs as root, as PostgreSQL refuses to run as
// root. It returns the attributes to start a process as that user.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	owner, err := user.Lookup("postgres")
	if err != nil {
		if owner, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(owner.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(owner.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

func (l *local) startKafka(ctx context.Context) (string, error) {
	ports, err := FreePorts(2)
	if err != nil {
		return "", err
	}
	broker := address(ports[0])
	node := kafkaNode{server: server{local: l, name: "kafka"}, broker: broker, settings: kafkaSettings(broker, broker, address(ports[1]))}
	if err := node.format(ctx, kafkaClusterID()); err != nil {
		return "", err
	}
	return broker, node.start(ctx)
}

// kafkaClusterID returns a new cluster id in the form that old versions need: 16 bytes in base64 that don't begin like
// a command-line option.
func kafkaClusterID() string { return rand.Text()[:21] + "A" }

// kafkaSettings returns the settings of a single KRaft node. Consumers of a new group don't
// wait for others to join, and topics aren't created automatically.
func kafkaSettings(listen, advertised, controller string) map[string]string {
	return map[string]string{
		"process.roles":                            "broker,controller",
		"node.id":                                  "1",
		"listeners":                                "PLAINTEXT://" + listen + ",CONTROLLER://" + controller,
		"advertised.listeners":                     "PLAINTEXT://" + advertised,
		"controller.listener.names":                "CONTROLLER",
		"listener.security.protocol.map":           "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"controller.quorum.voters":                 "1@" + controller,
		"offsets.topic.replication.factor":         "1",
		"offsets.topic.num.partitions":             "1",
		"transaction.state.log.replication.factor": "1",
		"transaction.state.log.min.isr":            "1",
		"group.initial.rebalance.delay.ms":         "0",
		"auto.create.topics.enable":                "false",
	}
}
