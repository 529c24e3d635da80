package swh

import (
	"fmt"
	"io"
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

// gitweb is the path of the program in Debian's package.
const gitweb = "/usr/share/gitweb/gitweb.cgi"

// StartForge serves the repositories below dir, also later ones. wait, unless nil, returns how long a clone of a
// repository waits. Close ends it.
func StartForge(dir string, wait func(name string) time.Duration) (*Forge, error) {
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
	mux.Handle("/", &cgi.Handler{Path: gitweb, Root: "/", Stderr: io.Discard, Env: []string{"GITWEB_CONFIG=" + config}})
	clones := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Root: "/git", Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	}
	mux.HandleFunc("GET /git/{name}/info/refs", func(w http.ResponseWriter, r *http.Request) {
		if wait != nil {
			select {
			case <-time.After(wait(r.PathValue("name"))):
			case <-r.Context().Done():
				return
			}
		}
		clones.ServeHTTP(w, r)
	})
	mux.Handle("/git/", clones)
	f.server = serve(listener, mux)
	return f, nil
}

func serve(listener net.Listener, handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return server
}

// Close ends the forge and its connections.
func (f *Forge) Close() { _ = f.server.Close() }

// Origin returns the URL of a repository for clones and listings.
func (f *Forge) Origin(name string) string { return f.URL + "git/" + name }

// Create makes an empty repository.
func (f *Forge) Create(name string) error {
	_, err := f.git("", "init", "--quiet", "--bare", "--template=", "--initial-branch=main", filepath.Join(f.dir, name))
	return err
}

// Fork creates a repository that borrows the objects of another one, as forges do.
func (f *Forge) Fork(name, of string) error {
	_, err := f.git("", "clone", "--quiet", "--bare", "--shared", "--template=", filepath.Join(f.dir, of), filepath.Join(f.dir, name))
	return err
}

// Commit adds a commit of one file to a repository's branch. It creates a missing repository.
func (f *Forge) Commit(name, content string, when time.Time) error {
	parent := ""
	if _, err := os.Stat(filepath.Join(f.dir, name)); err != nil {
		if err := f.Create(name); err != nil {
			return err
		}
	} else {
		parent = "from refs/heads/main^0\n"
	}
	_, err := f.git(fmt.Sprintf("commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata 0\n%sM 644 inline README\ndata %d\n%s\n",
		when.Unix(), parent, len(content), content), "-C", filepath.Join(f.dir, name), "fast-import", "--quiet")
	return err
}

// Tip returns the commit of a repository's branch.
func (f *Forge) Tip(name string) (string, error) {
	return f.git("", "-C", filepath.Join(f.dir, name), "rev-parse", "--verify", "--quiet", "main")
}

// Break deletes the directory of a repository's last commit, so that clones fail.
func (f *Forge) Break(name string) error {
	tree, err := f.git("", "-C", filepath.Join(f.dir, name), "rev-parse", "main^{tree}")
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(f.dir, name, "objects", tree[:2], tree[2:]))
}

// Remove deletes a repository.
func (f *Forge) Remove(name string) error { return os.RemoveAll(filepath.Join(f.dir, name)) }

// git runs a command of git and returns what it prints.
func (f *Forge) git(input string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Stdin = strings.NewReader(input)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, errors.String())
	}
	return strings.TrimSpace(string(out)), nil
}
