// Package passwords checks passwords against hashes: bcrypt's, and argon2id's in the PHC form
// ($argon2id$v=19$m=…,t=…,p=…$SALT$HASH). A check takes long and may take memory, so servers bound the number of
// parallel checks. [Parse] bounds the cost of one check.
package passwords

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// Bounds of one check: some 2 s of one processor, and 64 MiB.
const (
	MaxBcryptCost   = 14
	MaxArgonMemory  = 64 << 10 // KiB
	MaxArgonTime    = 10
	MaxArgonThreads = 16
)

// Least parameters. A hash with smaller ones is guessed fast.
const (
	minBcryptCost  = 10
	minArgonMemory = 8 << 10 // KiB
)

// Hash is the hash of a password. It prints as [hash].
type Hash struct {
	bcrypt []byte // set for bcrypt; otherwise the fields below

	memory, time uint32
	threads      uint8
	salt, sum    []byte
}

// String returns no part of the hash.
func (h Hash) String() string { return "[hash]" }

// Parse reads a hash. Its errors say what is wrong without quoting it.
func Parse(text string) (Hash, error) {
	switch {
	case strings.HasPrefix(text, "$argon2id$"):
		return parseArgon(text)
	case strings.HasPrefix(text, "$2"):
		return parseBcrypt(text)
	}
	return Hash{}, errors.New("must be a hash of bcrypt ($2b$…) or argon2id ($argon2id$v=19$m=…,t=…,p=…$…$…)")
}

func parseBcrypt(text string) (Hash, error) {
	const length = 60
	cost, err := bcrypt.Cost([]byte(text))
	switch {
	case err != nil || len(text) != length:
		return Hash{}, errors.New("is not a complete bcrypt hash of 60 characters")
	case cost < minBcryptCost || cost > MaxBcryptCost:
		return Hash{}, fmt.Errorf("has a cost of %d: expected %d to %d", cost, minBcryptCost, MaxBcryptCost)
	}
	return Hash{bcrypt: []byte(text)}, nil
}

func parseArgon(text string) (h Hash, err error) {
	parts := strings.Split(text, "$") // "", argon2id, version, parameters, salt, sum
	if len(parts) != 6 || parts[2] != "v=19" {
		return Hash{}, errors.New("must be a whole hash of argon2id, version 19: $argon2id$v=19$m=…,t=…,p=…$SALT$HASH")
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memory, &h.time, &h.threads); err != nil || parts[3] != fmt.Sprintf("m=%d,t=%d,p=%d", h.memory, h.time, h.threads) {
		return Hash{}, errors.New("must have parameters of argon2id in the form m=19456,t=2,p=1")
	}
	switch {
	case h.memory < minArgonMemory || h.memory > MaxArgonMemory:
		return Hash{}, fmt.Errorf("has m=%d: expected %d to %d KiB", h.memory, minArgonMemory, MaxArgonMemory)
	case h.time < 1 || h.time > MaxArgonTime:
		return Hash{}, fmt.Errorf("has t=%d: expected 1 to %d", h.time, MaxArgonTime)
	case h.threads < 1 || h.threads > MaxArgonThreads:
		return Hash{}, fmt.Errorf("has p=%d: expected 1 to %d", h.threads, MaxArgonThreads)
	}
	strict := base64.RawStdEncoding.Strict()
	if h.salt, err = strict.DecodeString(parts[4]); err == nil {
		h.sum, err = strict.DecodeString(parts[5])
	}
	if err != nil || len(h.salt) < 8 || len(h.salt) > 64 || len(h.sum) < 16 || len(h.sum) > 64 {
		return Hash{}, errors.New("must have a salt of 8 to 64 bytes and a hash of 16 to 64, both in base64 without =")
	}
	return h, nil
}

// Matches reports whether the hash is that of the password.
func (h Hash) Matches(password string) bool {
	switch {
	case h.bcrypt != nil:
		return bcrypt.CompareHashAndPassword(h.bcrypt, []byte(password)) == nil
	case h.sum != nil:
		sum := argon2.IDKey([]byte(password), h.salt, h.time, h.memory, h.threads, uint32(len(h.sum)))
		return subtle.ConstantTimeCompare(sum, h.sum) == 1
	}
	return false
}
