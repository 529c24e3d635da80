package service

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
)

// profiles adds Go's profiles to mux. They contain parts of the memory.
func (s MetricsServer) profiles(mux *http.ServeMux) {
	for path, profile := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/profile": pprof.Profile, "/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if !fromHere(r) && !s.hasToken(r) {
				w.Header().Set("WWW-Authenticate", `Basic realm="profiles"`)
				http.Error(w, "Profiles are shown to this host, and to requests with metrics.pprof_token, as a bearer token or as the password of any user.", http.StatusUnauthorized)
				return
			}
			profile(w, r)
		})
	}
}

// fromHere reports whether a request is from this host, without headers of a proxy.
func fromHere(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback() && r.Header.Get("X-Forwarded-For") == "" && r.Header.Get("Forwarded") == "" && r.Header.Get("Via") == ""
}

// hasToken reports whether a request has the token, in constant time.
func (s MetricsServer) hasToken(r *http.Request) bool {
	_, given, basic := r.BasicAuth()
	if !basic {
		given, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.Token))
	return s.Token != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
