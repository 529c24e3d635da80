package passwords

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// argon returns a hash of argon2id in the PHC form.
func argon(password string, memory, time uint32, threads uint8) string {
	salt := []byte("0123456789abcdef")
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", memory, time, threads, b64(salt), b64(argon2.IDKey([]byte(password), salt, time, memory, threads, 32)))
}

func TestHash(t *testing.T) {
	t.Parallel()
	b, err := bcrypt.GenerateFromPassword([]byte("s3cret"), minBcryptCost)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		string(b), strings.Replace(string(b), "$2a$", "$2y$", 1), argon("s3cret", minArgonMemory, 1, 1),
		// A hash of argon2-cffi, which Python programs use.
		"$argon2id$v=19$m=8192,t=1,p=2$c29tZXNhbHRzb21lc2FsdA$" + base64.RawStdEncoding.EncodeToString(argon2.IDKey([]byte("s3cret"), []byte("somesaltsomesalt"), 1, 8192, 2, 16)),
	} {
		h, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for password, want := range map[string]bool{"s3cret": true, "S3cret": false, "": false, "s3cret ": false, text: false, strings.Repeat("x", 1<<16): false} {
			if h.Matches(password) != want {
				t.Errorf("%s is that of %.20q: %t", text, password, !want)
			}
		}
		if shown := fmt.Sprintf("%v %+v %s", h, h, h); shown != "[hash] [hash] [hash]" {
			t.Error(shown)
		}
	}
	if (Hash{}).Matches("") {
		t.Error("no hash is that of no password")
	}
}

// Parse refuses hashes that are too expensive to check or guessed fast, and its errors quote no hash.
func TestParse(t *testing.T) {
	t.Parallel()
	cheap, _ := bcrypt.GenerateFromPassword([]byte("s3cret"), 4)
	const rest = "$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg"
	for text, want := range map[string]string{
		"s3cret":                                "must be a hash of bcrypt",
		"":                                      "must be a hash of bcrypt",
		"$2b$12$short":                          "60 characters",
		string(cheap):                           "has a cost of 4: expected 10 to 14",
		"$2b$31$" + string(cheap)[7:]:           "has a cost of 31",
		"$2b$14$" + string(cheap)[7:] + "x":     "60 characters",
		"$argon2i$v=19$m=19456,t=2,p=1" + rest:  "must be a hash of bcrypt",
		"$argon2id$v=16$m=19456,t=2,p=1" + rest: "version 19",
		"$argon2id$m=19456,t=2,p=1" + rest:      "version 19",
		"$argon2id$v=19$m=4294967295,t=2,p=1" + rest:       "has m=4294967295: expected 8192 to 65536 KiB",
		"$argon2id$v=19$m=4294967296,t=2,p=1" + rest:       "in the form",
		"$argon2id$v=19$m=1024,t=2,p=1" + rest:             "has m=1024",
		"$argon2id$v=19$m=19456,t=1000,p=1" + rest:         "has t=1000: expected 1 to 10",
		"$argon2id$v=19$m=19456,t=0,p=1" + rest:            "has t=0",
		"$argon2id$v=19$m=19456,t=2,p=255" + rest:          "has p=255: expected 1 to 16",
		"$argon2id$v=19$m=19456,t=2,p=0" + rest:            "has p=0",
		"$argon2id$v=19$m=19456,t=2,p=1,x=1" + rest:        "in the form",
		"$argon2id$v=19$m=19456,t=-2,p=1" + rest:           "in the form",
		"$argon2id$v=19$m=19456,t=2,p=1$MDEy$" + rest[1:]:  "version 19",
		"$argon2id$v=19$m=19456,t=2,p=1$MDEy$MDEyMzQ1Njc":  "a salt of 8 to 64 bytes",
		"$argon2id$v=19$m=19456,t=2,p=1$s3cret!!$s3cret!!": "a salt of 8 to 64 bytes",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("$2b$12$abcdefghijklmnopqrstuuEr6YD3zqM8rmEFSBYzU0nYVvk9/2xE6")
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := Parse(text)
		if err == nil && (h.memory > MaxArgonMemory || h.time > MaxArgonTime || (h.bcrypt == nil) == (h.sum == nil)) {
			t.Errorf("%+v", h)
		}
	})
}
