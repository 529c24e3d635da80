package config

// RPCServe says what the RPC server (command rpc-serve) asks of its clients.
type RPCServe struct {
	// TLSCertificate and TLSKey are PEM files; both or none.
	TLSCertificate, TLSKey string
	// Token is the bearer token, Username and Password are the HTTP basic
	// credentials that a client must send; either will do if there are both.
	Token    Secret
	Username string
	Password Secret
	// MaxBodySize bounds a request's body, decompressed, in bytes.
	MaxBodySize int
}

// DefaultMaxBodySize holds any batch that clients send many times over.
const DefaultMaxBodySize = 64 << 20

func (r *RPCServe) read(v value) {
	fields := map[string]func(value){
		"tls_certificate": func(v value) { r.TLSCertificate = v.text() },
		"tls_key":         func(v value) { r.TLSKey = v.text() },
		"token":           func(v value) { r.Token = Secret(v.text()) },
		"username":        func(v value) { r.Username = v.text() },
		"password":        func(v value) { r.Password = Secret(v.text()) },
		"max_body_size":   func(v value) { r.MaxBodySize = v.whole(1) },
	}
	v.section(fields, func(e entry) { e.unknown(keysOf(fields), nil) })
	if (r.TLSCertificate == "") != (r.TLSKey == "") {
		v.problem("must have both tls_certificate and tls_key, or none")
	}
	if (r.Username == "") != (r.Password == "") {
		v.problem("must have both username and password, or none")
	}
}
