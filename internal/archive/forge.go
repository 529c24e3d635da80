package archive

import (
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Forge serves git repositories on the loopback by git's own CGI programs: pages of gitweb
// at its root, which swh.lister reads, and clones below /git/.
type Forge struct {
	URL string // of the list of repositories

	dir    string
	server *http.Server
}

// gitweb is where Debian's package has the program.
const gitweb = "/usr/share/gitweb/gitweb.cgi"

// StartForge serves the repositories below dir, also later ones. Close ends it.
func StartForge(dir string) (*Forge, error) {
	core, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("look for git's programs: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Forge{URL: "http://" + listener.Addr().String() + "/", dir: dir}
	// Beside the repositories: gitweb lists directories only.
	config := filepath.Join(dir, "gitweb.conf")
	text := fmt.Sprintf("our $projectroot = '%s';\nour @git_base_url_list = ('%sgit');\n1;\n", dir, f.URL)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		_ = listener.Close()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", &cgi.Handler{Path: gitweb, Root: "/", Env: []string{"GITWEB_CONFIG=" + config}})
	mux.Handle("/git/", &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	})
	f.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = f.server.Serve(listener) }()
	return f, nil
}

// Close ends the forge and its connections.
func (f *Forge) Close() { _ = f.server.Close() }

// Origin returns the URL that a repository is cloned from, and listed with.
func (f *Forge) Origin(name string) string { return f.URL + "git/" + name }

// Commit adds a commit of one file to a repository's branch, and makes the repository where
// there is none.
func (f *Forge) Commit(name, content string, when time.Time) error {
	dir, parent := filepath.Join(f.dir, name), ""
	if _, err := os.Stat(dir); err != nil {
		if out, err := exec.Command("git", "init", "--quiet", "--bare", "--initial-branch=main", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("git init: %w\n%s", err, out)
		}
	} else {
		parent = "from refs/heads/main^0\n"
	}
	cmd := exec.Command("git", "-C", dir, "fast-import", "--quiet")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata 0\n%sM 644 inline README\ndata %d\n%s\n",
		when.Unix(), parent, len(content), content))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git fast-import: %w\n%s", err, out)
	}
	return nil
}
