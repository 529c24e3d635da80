package main

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// kind says what is particular about a repository.
type kind string

const (
	plain     kind = "plain"
	fork      kind = "fork"
	undated   kind = "undated"   // its lister does not say when it last changed
	growing   kind = "growing"   // gets a new commit after its first visit
	empty     kind = "empty"     // no commit yet
	broken    kind = "broken"    // cannot be read
	vanishing kind = "vanishing" // listed, then gone before its visit
)

// kinds is the pattern that the repositories repeat.
var kinds = []kind{
	plain, fork, growing, undated, empty, plain, plain, undated, broken, plain,
	plain, fork, growing, undated, plain, plain, plain, undated, plain, vanishing,
}

// minRepositories is more than fit in the queue: those that vanish have time to
// do so because their visits come last.
const minRepositories = queueLimit + 10

// repository is a bare git repository on disk.
type repository struct {
	Path string
	Kind kind
}

// URL is the origin's URL.
func (r repository) URL() string {
	return (&url.URL{Scheme: "file", Path: r.Path}).String()
}

// makeRepositories makes n repositories below dir, in the folders that the
// demo's lister knows ("dated" and "undated"). Dates of last update are chosen
// so that growing ones are visited first, which leaves time for their second
// visit, and vanishing ones last, which leaves time to vanish.
func makeRepositories(dir string, n int) ([]repository, error) {
	now := time.Now()
	repositories := make([]repository, 0, n)
	var parent repository
	for i := range n {
		r := repository{Kind: kinds[i%len(kinds)]}
		folder := "dated"
		if r.Kind == undated {
			folder = "undated"
		}
		r.Path = filepath.Join(dir, folder, fmt.Sprintf("project-%04d.git", i))
		updated := now.Add(-time.Duration(n-i)*24*time.Hour - 24*time.Hour)
		switch r.Kind {
		case growing:
			updated = updated.AddDate(-20, 0, 0)
		case vanishing:
			updated = now
		case plain:
			parent = r // the next fork's
		}
		if err := r.make(i, parent, updated); err != nil {
			return nil, fmt.Errorf("make repository %s: %w", r.Path, err)
		}
		repositories = append(repositories, r)
	}
	return repositories, nil
}

const branch = "refs/heads/main"

func (r repository) make(i int, parent repository, updated time.Time) error {
	for _, folder := range []string{"objects/info", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(r.Path, folder), 0o755); err != nil {
			return err
		}
	}
	if err := r.write("config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"); err != nil {
		return err
	}
	if err := r.write("HEAD", "ref: "+branch+"\n"); err != nil {
		return err
	}
	switch r.Kind {
	case empty:
		return os.Chtimes(filepath.Join(r.Path, "HEAD"), updated, updated)
	case broken:
		return r.breakIt(i, updated)
	case fork:
		// Forges make forks share their parent's objects.
		if err := r.write("objects/info/alternates", filepath.Join(parent.Path, "objects")+"\n"); err != nil {
			return err
		}
		head, err := os.ReadFile(filepath.Join(parent.Path, branch))
		if err != nil {
			return err
		}
		if err := r.write(branch, string(head)); err != nil {
			return err
		}
	}
	if err := r.commit(fmt.Sprintf("Project %d\n", i), updated); err != nil {
		return err
	}
	if i%3 == 0 {
		return r.tag("v1.0", updated)
	}
	return nil
}

// breakIt damages a repository in one of the two ways that git notices.
func (r repository) breakIt(i int, updated time.Time) error {
	if i/len(kinds)%2 == 0 {
		if err := r.write("HEAD", "\x00 not a ref"); err != nil {
			return err
		}
		return os.Chtimes(filepath.Join(r.Path, "HEAD"), updated, updated)
	}
	return r.setBranch("0123456789abcdef0123456789abcdef01234567", updated)
}

// commit adds a commit to the main branch, dated when: the commit and the file
// of the branch, from which the lister takes the date of the last update.
func (r repository) commit(content string, when time.Time) error {
	blob, err := r.object("blob", []byte(content))
	if err != nil {
		return err
	}
	tree, err := r.object("tree", append([]byte("100644 README\x00"), blob...))
	if err != nil {
		return err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "tree %x\n", tree)
	if head, err := os.ReadFile(filepath.Join(r.Path, branch)); err == nil {
		fmt.Fprintf(&text, "parent %s\n", bytes.TrimSpace(head))
	}
	fmt.Fprintf(&text, "author %[1]s\ncommitter %[1]s\n\nWrite the README\n", signature(when))
	commit, err := r.object("commit", text.Bytes())
	if err != nil {
		return err
	}
	return r.setBranch(fmt.Sprintf("%x", commit), when)
}

// tag adds an annotated tag on the main branch.
func (r repository) tag(name string, when time.Time) error {
	head, err := os.ReadFile(filepath.Join(r.Path, branch))
	if err != nil {
		return err
	}
	tag, err := r.object("tag", fmt.Appendf(nil, "object %s\ntype commit\ntag %s\ntagger %s\n\nRelease\n",
		bytes.TrimSpace(head), name, signature(when)))
	if err != nil {
		return err
	}
	return r.write("refs/tags/"+name, fmt.Sprintf("%x\n", tag))
}

func signature(when time.Time) string {
	return fmt.Sprintf("Demo <demo@example.org> %d +0000", when.Unix())
}

// setBranch moves the main branch in one step, because a worker may be reading.
func (r repository) setBranch(commit string, when time.Time) error {
	const next = branch + ".lock" // git's own name: never listed as a branch
	if err := r.write(next, commit+"\n"); err != nil {
		return err
	}
	path := filepath.Join(r.Path, next)
	if err := os.Chtimes(path, when, when); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(r.Path, branch))
}

// object stores a loose object and returns its name.
func (r repository) object(kind string, content []byte) ([]byte, error) {
	data := append(fmt.Appendf(nil, "%s %d\x00", kind, len(content)), content...)
	name := sha1.Sum(data)
	var compressed bytes.Buffer
	w := zlib.NewWriter(&compressed)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	hex := fmt.Sprintf("%x", name)
	if err := os.MkdirAll(filepath.Join(r.Path, "objects", hex[:2]), 0o755); err != nil {
		return nil, err
	}
	return name[:], r.write(filepath.Join("objects", hex[:2], hex[2:]), compressed.String())
}

func (r repository) write(name, content string) error {
	return os.WriteFile(filepath.Join(r.Path, name), []byte(content), 0o644)
}
