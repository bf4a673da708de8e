package ruletest

import (
	"errors"
	"io"
	"net/http"
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
