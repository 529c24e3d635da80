package dashboard

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

var reportsPage = Page{Path: "/reports", Title: "Simulator reports", Menu: "Reports", Template: "reports.html", Data: reportsOf}

// reportsData lists the reports that `simulator run --html` wrote to the directory dashboard.reports.
type reportsData struct {
	Configured bool         `json:"configured"`
	Reports    []reportData `json:"reports"` // the newest first, at most maxRows
}

type reportData struct {
	File    string    `json:"file"`
	Written time.Time `json:"written"`
}

// reportName matches the file names of reports.
var reportName = regexp.MustCompile(`^[\w.-]+\.html$`)

func reportsOf(_ context.Context, r *Request) (any, error) {
	data := reportsData{r.reportsIn() != "", []reportData{}}
	if !data.Configured {
		return data, nil
	}
	entries, err := os.ReadDir(r.reportsIn())
	if err != nil {
		return nil, unreadable(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && reportName.MatchString(e.Name()) {
			data.Reports = append(data.Reports, reportData{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(data.Reports, func(a, b reportData) int { return b.Written.Compare(a.Written) })
	data.Reports = data.Reports[:min(len(data.Reports), maxRows)]
	return data, nil
}

// reportsIn returns the directory of reports; "" if there is none.
func (d *Dashboard) reportsIn() string {
	c := d.Config
	if c.Dashboard.Reports == "" {
		return ""
	}
	return filepath.Clean(c.Resolve(c.Dashboard.Reports))
}

// unreadable returns the error for an unreadable directory of reports. It omits the path.
func unreadable(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return Errorf(http.StatusInternalServerError, "The directory of reports (dashboard.reports) can't be read: %s.", err)
}

// report serves a report unchanged, in a sandbox.
func (d *Dashboard) report(w http.ResponseWriter, r *http.Request) {
	if _, err := d.reader(r); err != nil {
		d.fail(w, r, err)
		return
	}
	missing := Errorf(http.StatusNotFound, "There is no report %s.", r.PathValue("file"))
	if d.reportsIn() == "" || !reportName.MatchString(r.PathValue("file")) {
		d.fail(w, r, missing)
		return
	}
	root, err := os.OpenRoot(d.reportsIn())
	if err != nil {
		d.fail(w, r, unreadable(err))
		return
	}
	defer root.Close()
	text, err := root.ReadFile(r.PathValue("file"))
	if errors.Is(err, fs.ErrNotExist) {
		err = missing
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text)
}
