package ruletest

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
)

// SetStore takes several claims, one after the other.
type SetStore struct{ *Store }

// Capabilities says so.
func (s *SetStore) Capabilities() core.Capabilities { return core.Capabilities{Sets: true} }

// Acquire implements core.Store.
func (s *SetStore) Acquire(ctx context.Context, req core.Request) (core.Grant, error) {
	whole := core.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL}
	for _, claim := range req.Claims {
		one := req
		one.Claims = []core.Claim{claim}
		g, err := s.Store.Acquire(ctx, one)
		if err != nil {
			return core.Grant{}, err
		}
		whole.Token = max(whole.Token, g.Token)
	}
	return whole, nil
}

// Release implements core.Store.
func (s *SetStore) Release(ctx context.Context, g core.Grant) error {
	for _, claim := range g.Claims {
		one := g
		one.Claims = []core.Claim{claim}
		if err := s.Store.Release(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// MultipartBody makes a form with these fields, and a file of 100 kB.
func MultipartBody(t testing.TB, fields ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	file, err := w.CreateFormFile("file", "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(file, strings.Repeat("x", 100_000))
	w.Close()
	return b.String(), w.FormDataContentType()
}
