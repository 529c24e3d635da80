package config

import (
	"encoding/base64"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SessionKwargs are a client's credentials for an RPC server, by the names of the Python scheduler's session_kwargs.
type SessionKwargs struct {
	Cert, Key     string // PEM files; one file may hold both
	Verify        string // PEM file of the authorities
	Authorization Secret // value of the header
}

func (s *SessionKwargs) read(v value) {
	v.section(map[string]func(value){
		"cert": func(v value) {
			switch files := v.oneOrMore(); len(files) {
			case 1:
				s.Cert = files[0].text()
				s.Key = s.Cert
			case 2:
				s.Cert, s.Key = files[0].text(), files[1].text()
			default:
				v.problem("must be a file with a certificate and its key, or a list of the two files")
			}
		},
		"verify": func(v value) {
			if on, isFlag := v.scalar().(bool); !isFlag {
				s.Verify = v.text()
			} else if !on {
				v.problem("can't be false, as anybody could then impersonate the server: name a file of authorities")
			}
		},
		"auth": func(v value) {
			if v.node.Kind != yaml.SequenceNode || len(v.node.Content) != 2 {
				v.problem("must be a list of a user and a password")
				return
			}
			s.authorize(v, "Basic "+base64.StdEncoding.EncodeToString([]byte(v.item(0).text()+":"+v.item(1).text())))
		},
		"headers": func(v value) {
			for _, e := range v.entries("a mapping of headers") {
				if strings.EqualFold(e.name, "authorization") {
					s.authorize(v, e.text())
				} else {
					e.warn("is not sent: Authorization is the only header that is")
				}
			}
		},
	}, []string{"proxies"}) // the environment sets proxies: HTTPS_PROXY
}

func (s *SessionKwargs) authorize(v value, text string) {
	if s.Authorization != "" {
		v.problem("has credentials, and so has auth or headers: leave one out")
	}
	s.Authorization = Secret(text)
}
