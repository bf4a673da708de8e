package ruletest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/shadowtest"
)

// Shadows tests that a rule with core.WithShadow serves every request.
func Shadows(t *testing.T, face Face) {
	shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, handler func(context.Context) error, opts ...core.CallOption) func(string) error {
		site := face(t, Route{
			Engine: eng, Once: once, Template: "k:{query.id}", Options: opts,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				_ = handler(r.Context())
				Done(w, r)
			},
		})
		return func(id string) error {
			a, err := site.Send(site.NewRequest("POST", "/x?id="+id, ""))
			if err == nil && (a.Status != 200 || a.Body != "done" || a.Replayed()) {
				err = fmt.Errorf("answer %d %q", a.Status, a.Body)
			}
			return err
		}
	})
}

// ShadowsOfBodies tests that the handler gets all of a body that the rule would not have taken.
func ShadowsOfBodies(t *testing.T, face Face) {
	echo := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	large := `{"id":"` + strings.Repeat("x", 200<<10) + `"}`
	for _, once := range []bool{false, true} {
		site := face(t, Route{Once: once, Template: "k:{body.id}", Handler: echo, BodyLimit: 100, Options: []core.CallOption{core.WithShadow()}})
		for _, body := range []string{`{"id":"1"}`, `{"id":"` + strings.Repeat("x", 100) + `"}`, large, "no JSON", ""} {
			req := site.NewRequest("POST", "/1", body, "Content-Type", "application/json")
			for _, length := range []int64{req.ContentLength, -1} {
				req := site.NewRequest("POST", "/1", body, "Content-Type", "application/json")
				if body != "" {
					req.ContentLength = length // -1: the server does not know it
				}
				if a, err := site.Send(req); err != nil || a.Status != 200 || a.Body != body {
					t.Errorf("once %v, body of %d bytes: %d, %d bytes, %v", once, len(body), a.Status, len(a.Body), err)
				}
			}
		}
	}
}
