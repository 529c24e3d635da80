package throwaway

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PostgreSQL's data are in memory if there is room, on a disk if they are to be durable, and removed when it has
// ended.
func TestPlaceOfPostgresData(t *testing.T) {
	for _, durable := range []string{"", "1"} {
		t.Setenv(DurableVar, durable)
		l, err := newLocal(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.stop)
		url, err := l.postgres(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		memory := durable == "" && l.fast != l.dir
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		var data string
		err = conn.QueryRow(t.Context(), "show data_directory").Scan(&data)
		_ = conn.Close(t.Context())
		if in := strings.HasPrefix(data, sharedMemory); err != nil || in != memory {
			t.Errorf("%s=%s: data in %s (%v), in memory: want %t", DurableVar, durable, data, err, memory)
		}
		l.stop()
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Errorf("%s is still there (%v)", data, err)
		}
	}
}

// available returns the smaller of the machine's and the container's memory.
func TestAvailableMemory(t *testing.T) {
	t.Parallel()
	const machine, stat = "MemTotal: 32 kB\nMemAvailable:   20 kB\n", "anon 3\ninactive_file 1024\nactive_file 2048\n"
	for _, test := range []struct {
		meminfo, limit, used string
		want                 uint64
	}{
		{machine, "", "", 20 << 10},
		{machine, "max\n", "4096\n", 20 << 10},
		{machine, "16384\n", "4096\n", 13 << 10},
		{machine, "16384\n", "20480\n", 0},
		{machine, "1048576\n", "4096\n", 20 << 10},
		{"", "16384\n", "4096\n", 0},
		{machine, "9223372036854771712\n", "4096\n", 20 << 10}, // no limit in v1
	} {
		for version, names := range map[string][]string{
			"v2": {"memory.max", "memory.current", "memory.stat"},
			"v1": {"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"},
		} {
			root, stat := t.TempDir(), stat
			if version == "v1" { // without "total", the cache of child groups is not counted
				stat += strings.ReplaceAll("\n"+stat, "\n", "\ntotal_")
				stat = strings.Replace(stat, "\ninactive_file 1024", "\ninactive_file 1", 1)
			}
			texts := map[string]string{"proc/meminfo": test.meminfo}
			for i, text := range []string{test.limit, test.used, stat} {
				texts["sys/fs/cgroup/"+names[i]] = text
			}
			for name, text := range texts {
				path := filepath.Join(root, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if got := available(root); got != test.want {
				t.Errorf("%s, %+v: %d", version, test, got)
			}
		}
	}
}
