package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// users are those of a file, with the hashes of their passwords.
type users struct {
	hashes map[string][]byte
	// nobody is compared with the password of a user who is not there, so that the time does not tell.
	nobody []byte
	// few bounds the comparisons at a time: each takes a processor for a tenth of a second.
	few chan struct{}

	secret [32]byte
	mu     sync.Mutex
	// right are the passwords that were right, hashed with the secret: a page asks for many things.
	right map[string][sha256.Size]byte
}

// mostCompared is how many passwords are compared at a time.
const mostCompared = 2

// readUsers reads a file of lines NAME:HASH, as "htpasswd -B" writes it. Lines that begin with # are comments.
func readUsers(file string) (*users, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	u := &users{hashes: make(map[string][]byte), few: make(chan struct{}, mostCompared), right: make(map[string][sha256.Size]byte)}
	_, _ = rand.Read(u.secret[:]) // never fails
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, _ := strings.Cut(line, ":")
		if _, err := bcrypt.Cost([]byte(hash)); err != nil || !printable(name) {
			return nil, fmt.Errorf("%s: line %d is not of the form NAME:HASH with a hash of bcrypt, as htpasswd -B writes it", file, n)
		}
		if u.hashes[name] != nil {
			return nil, fmt.Errorf("%s: line %d: %s is there twice", file, n, name)
		}
		u.hashes[name] = []byte(hash)
		u.nobody = u.hashes[name]
	}
	if len(u.hashes) == 0 {
		return nil, fmt.Errorf("%s names nobody", file)
	}
	return u, lines.Err()
}

// admit lets in who sends a name and its password.
func (u *users) admit(w http.ResponseWriter, r *http.Request) (string, bool) {
	name, password, _ := r.BasicAuth()
	if u.are(r, name, password) {
		return name, true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="keyturn", charset="UTF-8"`)
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "name and password, please", http.StatusUnauthorized)
	return "", false
}

// are reports whether the password is that of the user.
func (u *users) are(r *http.Request, name, password string) bool {
	hash, known := u.hashes[name]
	if !known {
		hash = u.nobody
	}
	if password == "" {
		return false
	}
	sum := hmac.New(sha256.New, u.secret[:])
	_, _ = sum.Write([]byte(password)) // cannot fail
	var seen [sha256.Size]byte
	sum.Sum(seen[:0])
	u.mu.Lock()
	right, was := u.right[name]
	u.mu.Unlock()
	if was && hmac.Equal(right[:], seen[:]) {
		return true
	}
	select {
	case u.few <- struct{}{}:
		defer func() { <-u.few }()
	case <-r.Context().Done():
		return false
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !known {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.right[name] = seen
	return true
}
