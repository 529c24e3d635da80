package services

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PostgreSQL's data are in memory where there is room, on a disk where they are to be durable,
// and gone when it has ended.
func TestPlaceOfPostgresData(t *testing.T) {
	for durable, memory := range map[string]bool{"": room(sharedMemory), "1": false} {
		t.Setenv(DurableVar, durable)
		url, stop, err := StartPostgres(t.Context(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
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
		stop()
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Errorf("%s is still there (%v)", data, err)
		}
	}
}
