"""Prints what the archive's loaders and listers report when a hoster refuses, as JSON."""
import http.server, json, os, socket, ssl, struct, sys, threading, time, traceback, tempfile, subprocess
real_sleep = time.sleep
slept = []
def no_sleep(s):
    slept.append(s)
time.sleep = no_sleep
import tenacity.nap
tenacity.nap.time.sleep = no_sleep

class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do(self):
        m = self.server.mode
        n = int(self.headers.get("Content-Length") or 0)
        if n: self.rfile.read(n)
        if m == "rst":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close(); self.close_connection = True; return
        if m == "eof":
            self.close_connection = True; return
        if m == "hang":
            real_sleep(3); self.close_connection = True; return
        if m == "cut":
            self.send_response(200); self.send_header("Content-Length", "1000"); self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
            self.end_headers(); self.wfile.write(b"x" * 10); self.close_connection = True; return
        status, headers = m
        body = b"go away"
        self.send_response(status)
        for k, v in headers.items(): self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD": self.wfile.write(body)
    do_GET = do_POST = do_HEAD = do
    def log_message(self, *a): pass
class S(http.server.ThreadingHTTPServer):
    daemon_threads = True
    def handle_error(self, *a): pass

def serve(mode):
    s = S(("127.0.0.1", 0), H); s.mode = mode
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s, "http://127.0.0.1:%d/" % s.server_port
def free():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); p = s.getsockname()[1]; s.close(); return p

def tls(kind):
    d = tempfile.mkdtemp()
    days = "1"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", d + "/k", "-out", d + "/c", "-days", days, "-subj", "/CN=localhost"], check=True, capture_output=True)
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); ctx.load_cert_chain(d + "/c", d + "/k")
    s = S(("127.0.0.1", 0), H); s.mode = (200, {})
    s.socket = ctx.wrap_socket(s.socket, server_side=True)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return "https://127.0.0.1:%d/" % s.server_port

CASES = [
    ("429", lambda: serve((429, {}))[1]),
    ("429 seconds", lambda: serve((429, {"Retry-After": "30"}))[1]),
    ("429 date", lambda: serve((429, {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}))[1]),
    ("503", lambda: serve((503, {}))[1]),
    ("503 seconds", lambda: serve((503, {"Retry-After": "120"}))[1]),
    ("502", lambda: serve((502, {}))[1]),
    ("504", lambda: serve((504, {}))[1]),
    ("500", lambda: serve((500, {}))[1]),
    ("529", lambda: serve((529, {}))[1]),
    ("403", lambda: serve((403, {}))[1]),
    ("403 rate", lambda: serve((403, {"Retry-After": "60", "X-RateLimit-Remaining": "0"}))[1]),
    ("401", lambda: serve((401, {}))[1]),
    ("404", lambda: serve((404, {}))[1]),
    ("refused", lambda: "http://127.0.0.1:%d/" % free()),
    ("reset", lambda: serve("rst")[1]),
    ("eof", lambda: serve("eof")[1]),
    ("hang", lambda: serve("hang")[1]),
    ("cut", lambda: serve("cut")[1]),
    ("dns", lambda: "https://nowhere.invalid/"),
    ("certificate", lambda: tls("self")),
    ("plain for tls", lambda: serve((200, {}))[1].replace("http:", "https:")),
]

from swh.storage import get_storage
def result(do):
    try:
        r = do()
        return {"returns": r.dict() if hasattr(r, "dict") else r}
    except BaseException as e:
        return {"raises": repr(e), "last line": "".join(traceback.format_exception(e)).rstrip().split("\n")[-1]}

def git(url):
    from swh.loader.git.loader import GitLoader
    return GitLoader(get_storage("memory"), url + "owner/repo.git").load()
def content(url):
    from swh.loader.core.loader import ContentLoader
    return ContentLoader(get_storage("memory"), url + "file.txt", checksums={"sha256": "0" * 64}).load()
def tarball(url):
    from swh.loader.core.loader import TarballDirectoryLoader
    return TarballDirectoryLoader(get_storage("memory"), url + "file.tar.gz", checksums={"sha256": "0" * 64}).load()
def pypi(url):
    from swh.loader.package.pypi.loader import PyPILoader
    l = PyPILoader(get_storage("memory"), "https://pypi.org/project/x/")
    l.provider_url = url + "pypi/x/json" if hasattr(l, "provider_url") else None
    return l.load()
def archive(url):
    from swh.loader.package.archive.loader import ArchiveLoader
    return ArchiveLoader(get_storage("memory"), url, artifacts=[{"time": "2020-01-01T00:00:00+00:00", "url": url + "a-1.tar.gz", "length": 5, "filename": "a-1.tar.gz", "version": "1"}]).load()
class Sched:
    def __getattr__(self, name): return lambda *a, **k: None
def scheduler():
    from swh.scheduler import get_scheduler
    import swh.scheduler.model as m, uuid
    class X:
        def get_or_create_lister(self, **k): return m.Lister(name=k["name"], instance_name=k["instance_name"], id=uuid.uuid4())
        def update_lister(self, l): return l
        def record_listed_origins(self, o): return list(o)
    return X()
def gitweb(url):
    from swh.lister.gitweb.lister import GitwebLister
    return GitwebLister(scheduler(), url=url).run()
def gitea(url):
    from swh.lister.gitea.lister import GiteaLister
    return GiteaLister(scheduler(), url=url + "api/v1/").run()
def gitlab(url):
    from swh.lister.gitlab.lister import GitLabLister
    return GitLabLister(scheduler(), url=url + "api/v4/").run()
def cgit(url):
    from swh.lister.cgit.lister import CGitLister
    return CGitLister(scheduler(), url=url).run()
WHO = [git, content, tarball, pypi, archive, gitweb, gitea, gitlab, cgit]
import logging; logging.disable(logging.CRITICAL)
only = sys.argv[1:]
import requests
orig = requests.Session.send
def send(self, req, **k):
    if k.get("timeout") is None or k.get("timeout"): k["timeout"] = 2
    return orig(self, req, **k)
requests.Session.send = send
import urllib3
for name, make in CASES:
    for who in WHO:
        if only and who.__name__ not in only and name not in only: continue
        slept.clear()
        url = make()
        if who is git and name == "hang":
            import dulwich.client
        out = result(lambda: who(url))
        print(json.dumps({"case": name, "who": who.__name__, **out, "slept": sum(x for x in slept if isinstance(x,(int,float)))}, default=str), flush=True)
