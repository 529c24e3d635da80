package dashboard_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/throwaway"
)

// browser is a headless Chromium. The DevTools protocol over its pipe controls it: JSON messages that end with a NUL.
// (chromedp needs a newer Go, and compiles for minutes.)
type browser struct {
	t   *testing.T
	axe string // script of axe-core
	in  io.Writer

	mu      sync.Mutex
	changed *sync.Cond // signals a new event or the browser's end
	last    int
	answers map[int]answer
	tabs    map[string]*tab // by session
	ended   error
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// patience is the longest wait for the browser, on a busy machine.
const patience = 2 * time.Minute

func startBrowser(t *testing.T) *browser {
	t.Helper()
	program, axe, err := throwaway.FindBrowser()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "swh-scheduler-browser-") // not t.TempDir, which fails the test if a dying child process still writes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for deadline := time.Now().Add(patience); os.RemoveAll(dir) != nil; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Logf("%s is left", dir)
				return
			}
		}
	})
	fromUs, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// No sandbox: root can't have one, and the pages are ours. The browser resolves no other host's name.
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
		"--hide-scrollbars", "--force-device-scale-factor=1", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir="+filepath.Join(dir, "profile"))
	cmd.ExtraFiles = []*os.File{fromUs, fromIt}
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Debian's command is a script that starts the browser
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = fromUs.Close(), fromIt.Close()
	b := &browser{t: t, axe: axe, in: in, answers: map[int]answer{}, tabs: map[string]*tab{}}
	b.changed = sync.NewCond(&b.mu)
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(out)
	}()
	t.Cleanup(func() {
		_ = in.Close() // it and its child processes end then
		kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		gone := time.AfterFunc(10*time.Second, kill)
		_ = cmd.Wait()
		gone.Stop()
		kill() // the rest of its process group
		_ = out.Close()
		<-read
	})
	return b
}

// read reads the browser's messages until it ends.
func (b *browser) read(out io.Reader) {
	messages := bufio.NewReader(out)
	for {
		text, err := messages.ReadBytes(0)
		b.mu.Lock()
		if err != nil {
			b.ended = err
			b.changed.Broadcast()
			b.mu.Unlock()
			return
		}
		var m struct {
			ID        int
			Method    string
			SessionID string
			Params    json.RawMessage
			answer
		}
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			b.ended = err
		} else if m.ID != 0 {
			b.answers[m.ID] = m.answer
		} else if tab := b.tabs[m.SessionID]; tab != nil {
			tab.happened(m.Method, m.Params)
		}
		b.changed.Broadcast()
		b.mu.Unlock()
	}
}

// wait waits until done returns true. It calls done under the lock.
func (b *browser) wait(what string, done func() bool) {
	b.t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		late = true
		b.changed.Broadcast()
	})
	defer timer.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	for !done() {
		if b.ended != nil || late {
			b.t.Fatalf("waiting for %s: late: %v; the browser ended: %v", what, late, b.ended)
		}
		b.changed.Wait()
	}
}

// call sends a command and waits for its result.
func (b *browser) call(session, method string, params any, result any) {
	b.t.Helper()
	b.mu.Lock()
	b.last++
	id := b.last
	b.mu.Unlock()
	command := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		command["sessionId"] = session
	}
	text, err := json.Marshal(command)
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	var a answer
	b.wait(method, func() bool {
		got, ok := b.answers[id]
		a = got
		delete(b.answers, id)
		return ok
	})
	if a.Error != nil {
		b.t.Fatalf("%s: %s", method, a.Error.Message)
	}
	if result != nil {
		if err := json.Unmarshal(a.Result, result); err != nil {
			b.t.Fatalf("%s: %v in %s", method, err, a.Result)
		}
	}
}

// tab is a page of the browser, with its own cookies.
type tab struct {
	*browser
	session  string
	loads    int
	problems []string // errors, violations of the content security policy, and requests to other hosts
}

type values map[string]any

// open opens an empty tab of a size.
func (b *browser) open(width, height int, dark bool) *tab {
	b.t.Helper()
	var created struct{ BrowserContextID, TargetID, SessionID string }
	b.call("", "Target.createBrowserContext", values{}, &created)
	b.call("", "Target.createTarget", values{"url": "about:blank", "browserContextId": created.BrowserContextID}, &created)
	b.call("", "Target.attachToTarget", values{"targetId": created.TargetID, "flatten": true}, &created)
	t := &tab{browser: b, session: created.SessionID}
	b.mu.Lock()
	b.tabs[t.session] = t
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		t.do(domain+".enable", values{})
	}
	t.resize(width, height, dark)
	return t
}

func (t *tab) do(method string, params any) {
	t.t.Helper()
	t.call(t.session, method, params, nil)
}

func (t *tab) resize(width, height int, dark bool) {
	t.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	t.do("Emulation.setDeviceMetricsOverride", values{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
	t.do("Emulation.setEmulatedMedia", values{"features": []values{{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}})
}

// happened stores an event. The caller holds the lock.
func (t *tab) happened(method string, params json.RawMessage) {
	switch method {
	case "Page.loadEventFired":
		t.loads++
	case "Page.javascriptDialogOpening", "Runtime.exceptionThrown":
		t.problems = append(t.problems, method+": "+string(params))
	case "Log.entryAdded":
		var e struct {
			Entry struct{ Source, Level, Text, URL string }
		}
		if json.Unmarshal(params, &e) == nil && e.Entry.Level == "error" {
			t.problems = append(t.problems, fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case "Network.requestWillBeSent":
		var e struct{ Request struct{ URL string } }
		if json.Unmarshal(params, &e) == nil && !strings.HasPrefix(e.Request.URL, "http://127.0.0.1:") {
			t.problems = append(t.problems, "a request to "+e.Request.URL)
		}
	}
}

// newProblems returns the problems since its last call.
func (t *tab) newProblems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	problems := t.problems
	t.problems = nil
	return problems
}

// load calls do, which loads a page, and waits until the page is loaded.
func (t *tab) load(what string, do func()) {
	t.t.Helper()
	t.mu.Lock()
	before := t.loads
	t.mu.Unlock()
	do()
	t.wait("the page after "+what, func() bool { return t.loads > before })
}

func (t *tab) visit(url string) {
	t.t.Helper()
	t.load(url, func() { t.do("Page.navigate", values{"url": url}) })
}

// eval returns the value of an expression, which may be a promise.
func (t *tab) eval(expression string, result any) {
	t.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	t.call(t.session, "Runtime.evaluate", values{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &r)
	if r.ExceptionDetails != nil {
		t.t.Fatalf("%.200s: %s %s", expression, r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	}
	if result != nil {
		if err := json.Unmarshal(r.Result.Value, result); err != nil {
			t.t.Fatalf("%.200s: %v in %s", expression, err, r.Result.Value)
		}
	}
}

// text returns the visible text of the page.
func (t *tab) text() (text string) {
	t.t.Helper()
	t.eval("document.body.innerText", &text)
	return text
}

// click clicks the first element that matches a selector and has a text.
func (t *tab) click(selector, text string) {
	t.t.Helper()
	quoted, _ := json.Marshal([]string{selector, text})
	t.eval(fmt.Sprintf(`(([selector, text]) => {
		const found = [...document.querySelectorAll(selector)].find(e => e.textContent.trim() === text);
		if (!found) throw new Error("no " + selector + " " + text + " in " + document.body.innerText);
		found.click();
	})(%s)`, quoted), nil)
}

// fill enters a value into the field with a name.
func (t *tab) fill(name, value string) {
	t.t.Helper()
	quoted, _ := json.Marshal([]string{name, value})
	t.eval(fmt.Sprintf(`(([name, value]) => { document.querySelector("[name=" + CSS.escape(name) + "]").value = value })(%s)`, quoted), nil)
}

// until waits until an expression is true.
func (t *tab) until(expression string) {
	t.t.Helper()
	testenv.Becomes(t.t, "what is true of the page", expression, func() string {
		var ok bool
		if t.eval("!!("+expression+")", &ok); ok {
			return expression
		}
		return "not that:\n" + t.text()
	})
}

// colours are the rules of axe-core whose results depend on the colour scheme.
const colours = `runOnly: ["color-contrast", "link-in-text-block"], `

// faults returns axe-core's findings for some rules (colours), or for WCAG 2.2 A and AA and best practices (""). It ends
// the page's live updates, which would replace elements during the check.
func (t *tab) faults(rules string) (faults []string) {
	t.t.Helper()
	var loaded bool
	if t.eval(`!!window.axe`, &loaded); !loaded {
		t.eval(`window.fetch = () => new Promise(() => {}); 0`, nil)
		t.eval(t.axe+`; 0`, nil)
	}
	t.eval(`axe.run(document, {`+rules+`resultTypes: ["violations"]}).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.failureSummary + " " + n.html)))`, &faults)
	return faults
}

// screenshot returns a PNG of the visible part.
func (t *tab) screenshot() []byte {
	t.t.Helper()
	var shot struct{ Data string }
	t.call(t.session, "Page.captureScreenshot", values{"format": "png"}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		t.t.Fatal(err)
	}
	return png
}
