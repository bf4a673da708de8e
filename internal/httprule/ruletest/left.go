package ruletest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// AReaderLeftBehind: a goroutine that a handler left behind reads nothing that belongs to a
// later request.
func AReaderLeftBehind(t *testing.T, face Face) {
	left := make(chan io.Reader, 1)
	s := face(t, Route{Engine: NewEngine(t, NewStore()), Handler: func(_ http.ResponseWriter, r *http.Request) { left <- r.Body }})
	if a := s.Do("POST", "/1", "secret"); a.Status != 200 {
		t.Fatalf("answer = %+v", a)
	}
	body := Receive(t, "the body", left)
	Until(t, "the end of the request", func() bool {
		n, err := body.Read(make([]byte, 1))
		return n == 0 && errors.Is(err, http.ErrBodyReadAfterClose)
	})

	// A key function leaves one behind, too. The client's packet comes when the request is over.
	late := &lateBody{waits: make(chan struct{}), packet: make(chan struct{})}
	read := make(chan error, 1)
	s = face(t, Route{
		Outer: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body = late
				next.ServeHTTP(w, r)
				close(late.packet)
			})
		},
		Key: func(r *http.Request) string {
			_, _ = r.Body.Read(make([]byte, 5))
			go func() {
				_, err := r.Body.Read(make([]byte, 1000))
				read <- err
			}()
			<-late.waits
			return ""
		},
	})
	s.Do("POST", "/1", "").Problem(t, 400, "KEY_INVALID")
	if err := Receive(t, "the end of the body", read); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("a body that is gone: %v", err)
	}
}

// lateBody is a body whose second packet comes late.
type lateBody struct {
	waits, packet chan struct{}
	begun         bool
}

func (b *lateBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		return copy(p, "hello"), nil
	}
	close(b.waits)
	<-b.packet
	return copy(p, "more of the body"), nil
}

func (*lateBody) Close() error { return nil }

// BodiesThatAreGone: an outer middleware has read the body, of known length or not. If it has decoded a form, the
// form is used. Otherwise this is a mistake in the service, and the log says so.
func BodiesThatAreGone(t *testing.T, face Face) {
	reads := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Type") == asJSON {
				_, _ = io.ReadAll(r.Body)
			}
			if r.Header.Get("Leave") == "nothing" {
				r.Body = http.NoBody
			}
			_ = r.FormValue("csrf")
			next.ServeHTTP(w, r)
		})
	}
	to := func(w http.ResponseWriter, r *http.Request) { write(w, 200, r.FormValue("to")) }
	for _, chunked := range []bool{false, true} {
		s := face(t, Route{Template: "m:{form.to}", Once: true, Outer: reads, Handler: to})
		post := func(body, as string) Answer {
			req := s.NewRequest("POST", "/1", body, "Content-Type", as)
			if chunked {
				req.ContentLength = -1
			}
			a, err := s.Send(req)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		if a := post("csrf=x&to=ada&x=1", asForm); a.Status != 200 || a.Body != "ada" {
			t.Errorf("a decoded form: %+v", a)
		}
		post("to=ada&x=2", asForm).Problem(t, 422, "FINGERPRINT_MISMATCH")
		post(MultipartBody(t, "to", "ada")).Problem(t, 500, "INTERNAL")
	}
	for _, template := range []string{"b:{body.id}", "b:{path.id}"} {
		for _, leave := range []string{"the read body", "nothing"} {
			s := face(t, Route{Template: template, Once: true, Outer: reads})
			s.Do("POST", "/1", `{"id":1}`, "Content-Type", asJSON, "Leave", leave).Problem(t, 500, "INTERNAL")
			if log := s.Log.String(); !strings.Contains(log, "read before") {
				t.Errorf("log = %q, want the reason", log)
			}
		}
	}
}
