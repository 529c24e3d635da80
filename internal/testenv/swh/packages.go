package swh

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Packages serves releases of packages on the loopback, as archives (.tar.gz), with a list in the format of the GNU
// project's server, which swh.lister reads.
type Packages struct {
	URL string

	dir    string
	server *http.Server
}

// StartPackages serves the releases below dir, also later ones. Close ends it.
func StartPackages(dir string) (*Packages, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Packages{URL: "http://" + listener.Addr().String(), dir: dir}
	mux := http.NewServeMux()
	mux.Handle("/gnu/", http.StripPrefix("/gnu/", http.FileServer(http.Dir(dir))))
	mux.HandleFunc("/tree.json.gz", func(w http.ResponseWriter, _ *http.Request) {
		gnu, err := list(dir, "gnu")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		zip := gzip.NewWriter(w)
		root := entry{Type: "directory", Name: ".", Contents: []entry{gnu}}
		_ = cmp.Or(json.NewEncoder(zip).Encode([]entry{root}), zip.Close())
	})
	p.server = serve(listener, mux)
	return p, nil
}

// Close ends the server and its connections.
func (p *Packages) Close() { _ = p.server.Close() }

// Origin returns the URL of a package's visits.
func (p *Packages) Origin(name string) string { return p.URL + "/gnu/" + name + "/" }

// Release adds a release, dated when, to a package.
func (p *Packages) Release(name, version string, when time.Time) error {
	dir := filepath.Join(p.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, name+"-"+version+".tar.gz")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	content := name + " " + version + "\n"
	zip := gzip.NewWriter(file)
	out := tar.NewWriter(zip)
	err = out.WriteHeader(&tar.Header{Name: name + "/README", Mode: 0o644, Size: int64(len(content)), ModTime: when})
	_, writeErr := io.WriteString(out, content)
	return cmp.Or(err, writeErr, out.Close(), zip.Close(), file.Close(), os.Chtimes(path, when, when), os.Chtimes(dir, when, when))
}

// entry is a file or a directory of the list.
type entry struct {
	Type     string  `json:"type"`
	Name     string  `json:"name"`
	Size     int64   `json:"size"` // in bytes
	Time     int64   `json:"time"` // in seconds since 1970
	Contents []entry `json:"contents,omitempty"`
}

// list returns the entry of a directory, called name, with all that it has.
func list(dir, name string) (entry, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return entry{}, err
	}
	e := entry{Type: "directory", Name: name, Time: info.ModTime().Unix()}
	files, err := os.ReadDir(dir)
	for _, file := range files {
		if file.IsDir() {
			inner, err := list(filepath.Join(dir, file.Name()), file.Name())
			if err != nil {
				return e, err
			}
			e.Contents = append(e.Contents, inner)
		} else if info, err := file.Info(); err == nil {
			e.Contents = append(e.Contents, entry{Type: "file", Name: file.Name(), Size: info.Size(), Time: info.ModTime().Unix()})
		}
	}
	return e, err
}
