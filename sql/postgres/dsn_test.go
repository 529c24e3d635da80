package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// secret is part of every password in these tests; no message may contain it.
const secret = "zzsecret"

// messages are all texts that may show a DSN. No server listens at the tests' addresses, so connections
// fail too.
func messages(t interface{ Context() context.Context }, dsn string) []string {
	texts := []string{postgres.Redacted(dsn)}
	store, err := db.Open(t.Context(), dsn, postgres.Options{})
	if err != nil {
		return append(texts, err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err))
	}
	defer store.Close()
	_, removeErr := migrate.Remove(t.Context(), dsn, migrate.RemoveOptions{})
	for _, err := range []error{
		store.CheckVersion(t.Context()),
		removeErr,
	} {
		texts = append(texts, err.Error(), fmt.Sprintf("%+v", err))
	}
	return texts
}

// Any wrong DSN is refused with a cause and without its password.
func TestBadDSN(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dsn, says string }{
		{"postgresql://u:zzsecret@h:port/d", "invalid port"},
		{"postgresql://u:zzsecret@h:99999/d", "invalid port"},
		{"postgresql://u:zz/zzsecret@h/d", `"@"`},
		{"postgresql://u:12/zzsecret@h/d", `"@"`},
		{"postgresql://u:zz@zzsecret@h/d", `"@"`},
		{"postgresql://u:12/3?zzsecret=4@h/d", `"@"`},
		{"postgresql://u:zzsecret%zz@h/d", "form"},
		{"postgresql://u:zzsecret@[::1/d", "form"},
		{"postgresql://u:zzsecret@h/d?nonsense=1", "libpq does not know"},
		{"postgresql://u:zzsecret@h/d?search_path=x", "options='-c name=value'"},
		{"postgresql://u:zzsecret@h/d?sslmode=nonsense", "TLS"},
		{"postgresql://u:zzsecret@h/d?sslmode=verify-full&sslrootcert=/nowhere/ca.crt", "TLS: /nowhere/ca.crt can't be read: no such file"},
		{"postgresql://u:zzsecret@h/d?sslmode=require&sslcert=/nowhere/a&sslkey=/nowhere/b", "TLS: /nowhere/b can't be read: no such file"},
		{"postgresql://u:zzsecret@h/d?sslcrl=/x", "sslcrl is not supported"},
		{"postgresql://u:zzsecret@h/d?gssencmode=require", "gssencmode is not supported"},
		{"postgresql://u:zzsecret@h/d?connect_timeout=soon", "connect_timeout"},
		{"postgresql://u:zzsecret@h/d?keepalives_idle=soon", "keepalives_idle must be a number"},
		{"postgresql://u:zzsecret@h/d?tcp_user_timeout=-1", "tcp_user_timeout must be a number"},
		{"postgresql://u:zzsecret@h/d?target_session_attrs=x", "target_session_attrs"},
		{"postgresql://u:zzsecret@h/d?default_query_exec_mode=x", "default_query_exec_mode"},
		{"postgresql://u:zzsecret@h/d?pool_max_conns=x", "pool_max_conns"},
		{"host=h password=zz zzsecret dbname=d", "form"},
		{"host=h password=zzsecret dbname", "form"},
		{"host=h password='zzsecret", "form"},
		{"host=h password=zzsecret port=x", "invalid port"},
		{"host=h password=zzsecret service=nonsense servicefile=/nonsense", "service"},
		{"host=h zzsecret=1", "libpq does not know"},
		{"http://u:zzsecret@h/d", "form"},
		{"softwareheritage-scheduler-zzsecret", "form"},
		{"host=h password=zzsecret\x00 dbname=d", "form"},
	} {
		_, err := db.Open(t.Context(), c.dsn, postgres.Options{})
		if !errors.Is(err, postgres.ErrBadDSN) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want ErrBadDSN and %q", c.dsn, err, c.says)
		}
		for _, message := range messages(t, c.dsn) {
			if strings.Contains(message, secret) {
				t.Errorf("%s: the password is in %q", c.dsn, message)
			}
		}
	}
}

// No message contains a piece of a password with unescaped special characters.
func TestNoMessageHoldsThePassword(t *testing.T) {
	t.Parallel()
	uri := rapid.StringOfN(rapid.RuneFrom([]rune(`@:/?#%& ;'"\+,[]()$`)), 0, 3, -1)
	keyword := rapid.StringOfN(rapid.RuneFrom([]rune(`@:/?#%& ;'"\+,[]()$`)), 0, 3, -1)
	seed.Check(t, func(t *rapid.T) {
		var dsn string
		if rapid.Bool().Draw(t, "uri") {
			password := uri.Draw(t, "a") + secret + uri.Draw(t, "b") + secret + uri.Draw(t, "c")
			if rapid.Bool().Draw(t, "escaped") {
				password = url.QueryEscape(password)
			}
			dsn = rapid.SampledFrom([]string{
				"postgresql://u:%s@127.0.0.1:1/d", "postgres://u:%s@127.0.0.1:1", "postgresql://:%s@127.0.0.1:1/d?sslmode=disable",
				"postgresql://127.0.0.1:1/d?user=u&password=%s", "postgresql://u:%s@127.0.0.1:1,127.0.0.1:2/d?sslmode=prefer",
			}).Draw(t, "form")
			dsn = strings.Replace(dsn, "%s", password, 1)
		} else {
			password := keyword.Draw(t, "a") + secret + keyword.Draw(t, "b") + secret + keyword.Draw(t, "c")
			dsn = rapid.SampledFrom([]string{
				"host=127.0.0.1 port=1 user=u password=%s", "password=%s host=127.0.0.1 port=1 dbname=d",
				"password='%s' host=127.0.0.1 port=1", "port=1 password = %s host=127.0.0.1",
			}).Draw(t, "form")
			dsn = strings.Replace(dsn, "%s", password, 1)
		}
		for _, message := range messages(t, dsn) {
			if strings.Contains(message, secret) {
				t.Fatalf("%s: the password is in %q", dsn, message)
			}
		}
	})
}

// For any DSN, Open returns a store or ErrBadDSN.
func FuzzDSN(f *testing.F) {
	for _, seed := range []string{
		"", "host=h port=1 dbname=d", "postgresql://u:p@h:1,i:2/d?sslmode=disable", "postgres://%zz", "service=x",
		`password='a\'b' options='-c a=b'`, "host=/tmp", "postgresql:///d?host=/tmp&port=1", "pool_max_conns=3", "=", "a=",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		store, err := db.Open(t.Context(), dsn, postgres.Options{})
		if err == nil {
			store.Close()
		} else if !errors.Is(err, postgres.ErrBadDSN) {
			t.Errorf("%q: %v, want ErrBadDSN", dsn, err)
		}
		_ = postgres.Redacted(dsn)
	})
}

// Both forms of libpq work, with the usual ways to name a server and the usual settings. The server gets
// the application_name.
func TestDSNForms(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	u := testenv.URL(t, dsn)
	password, _ := u.User.Password()
	keywords := fmt.Sprintf("host='%s' port=%s user='%s' password='%s' dbname=%s",
		u.Hostname(), u.Port(), u.User.Username(), password, strings.TrimPrefix(u.Path, "/"))
	services := testenv.File(t, "services", "[swh]\n"+strings.ReplaceAll(strings.ReplaceAll(keywords, " ", "\n"), "'", "")+"\nkeepalives=1\n")
	join := "?"
	if u.RawQuery != "" {
		join = "&"
	}

	const asWe = "swh-scheduler test"
	for name, c := range map[string]struct{ dsn, query, want string }{
		"URI":          {dsn, "select current_setting('application_name')", asWe},
		"keywords":     {keywords, "select current_setting('application_name')", asWe},
		"own name":     {keywords + " application_name=mine", "select current_setting('application_name')", "mine"},
		"service":      {"service=swh servicefile=" + services, "select current_database()", strings.TrimPrefix(u.Path, "/")},
		"options":      {dsn + join + "options=-c%20work_mem%3D3MB", "select current_setting('work_mem')", "3MB"},
		"keepalives":   {keywords + " keepalives=1 keepalives_idle=30 tcp_user_timeout=1000 client_encoding=auto gssencmode=prefer", "select 'up'", "up"},
		"time zone":    {dsn, "select current_setting('timezone')", "UTC"},
		"encoding":     {dsn, "select current_setting('client_encoding')", "UTF8"},
		"PgBouncer":    {keywords + " default_query_exec_mode=exec", "select 'up'", "up"},
		"simple mode":  {keywords + " default_query_exec_mode=simple_protocol", "select 'up'", "up"},
		"several host": {strings.Replace(keywords, "host='", "host='127.0.0.1,", 1) + " port=1," + u.Port(), "select 'up'", "up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := testenv.Value[string](t, testenv.OpenLocal(t, c.dsn).Pool(), c.query)
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
