package ruletest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/leveltest"
)

// OneAtATime: requests with one key go through two servers, one at a time. Requests with other
// keys do not wait for them.
func OneAtATime(t *testing.T, face Face) {
	var inside, most, total atomic.Int64
	r := Route{Engine: NewEngine(t, NewStore()), Handler: func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), inside.Add(1)))
		time.Sleep(time.Millisecond) // long enough to see another one
		inside.Add(-1)
		total.Add(1)
		Done(w, r)
	}}
	sites := []*Site{face(t, r), face(t, r)}
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() {
			if a := sites[i%2].Do("PUT", "/42", ""); a.Status != 200 {
				t.Errorf("answer = %+v", a)
			}
		})
	}
	clients.Wait()
	if most.Load() != 1 || total.Load() != 20 {
		t.Errorf("%d requests, at most %d at a time; want 20, one at a time", total.Load(), most.Load())
	}
	lease := MustAcquire(t, r.Engine, "k:42")
	defer MustRelease(t, lease)
	if a := sites[0].Do("PUT", "/43", ""); a.Status != 200 {
		t.Errorf("a request with another key: %+v", a)
	}
}

// HeldUntilTheHandlerReturns: the key is held until the handler returns, even if the client has
// gone.
func HeldUntilTheHandlerReturns(t *testing.T, face Face) {
	eng := NewEngine(t, NewStore())
	running, gone, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := face(t, Route{Engine: eng, Handler: func(_ http.ResponseWriter, r *http.Request) {
		if lease, found := core.LeaseFrom(r.Context()); !found || lease.Key() != "k:42" || lease.Token() == 0 {
			t.Errorf("lease = %v, %v", lease, found)
		}
		close(running)
		<-r.Context().Done()
		close(gone)
		<-goOn
	}})
	hangUp := s.sendAndHangUp("GET", "/42", "")
	Receive(t, "the handler", running)
	hangUp()
	Receive(t, "the handler's context to end", gone)
	if !IsHeld(t, eng, "k:42") {
		t.Error("the lock was let go while the handler was running")
	}
	close(goOn)
	Until(t, "the release", func() bool { return !IsHeld(t, eng, "k:42") })
}

// sendAndHangUp sends a request whose answer the client will not wait for. The returned
// function hangs up.
func (s *Site) sendAndHangUp(method, target, body string) func() {
	ctx, cancel := context.WithCancel(context.Background())
	client := make(chan error, 1)
	go func() {
		a, err := s.Send(s.NewRequest(method, target, body).WithContext(ctx))
		client <- cmp.Or(err, a.Broken)
	}()
	return func() {
		cancel()
		if err := Receive(s.t, "the client", client); err == nil {
			s.t.Error("the client got an answer")
		}
	}
}

// Panics release the key and go on. A middleware that recovers can answer, even if the handler
// had answered before. Once abandons its claim.
func Panics(t *testing.T, face Face) {
	recovering := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					write(w, 500, "recovered")
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
	for _, once := range []bool{false, true} {
		var calls atomic.Int64
		eng := NewEngine(t, NewStore())
		s := face(t, Route{Engine: eng, Once: once, Outer: recovering, Handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", `"1"`)
			Done(w, r)
			if calls.Add(1) == 1 {
				panic("at the disco")
			}
		}})
		if a := s.Do("GET", "/42", ""); a.Status != 500 || a.Body != "recovered" || a.Header.Get("Etag") != "" {
			t.Errorf("once %v: answer = %+v, want a 500 that keeps nothing of the handler's", once, a)
		}
		if IsHeld(t, eng, "k:42") {
			t.Errorf("once %v: the lock is still held", once)
		}
		if a := s.Do("GET", "/42", ""); a.Status != 200 || a.Replayed() {
			t.Errorf("once %v: second answer = %+v, want the handler's", once, a)
		}
	}
}

// LossBreaksWhatWasSent: after a loss, over HTTP/1.1 and HTTP/2, no client takes a part of a
// response for the whole.
func LossBreaksWhatWasSent(t *testing.T, face Face) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing") // otherwise the large response would be kept back
	for name, h := range map[string]http.HandlerFunc{
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "begun")
			w.(http.Flusher).Flush()
		},
		"large": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 100<<10)) },
		"events": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: "+strings.Repeat("x", 10<<10)+"\n\n") // more than net/http keeps back
		},
	} {
		for _, http2 := range []bool{false, true} {
			for _, once := range []bool{false, true} {
				t.Run(fmt.Sprintf("HTTP/2 %v, once %v, %s", http2, once, name), func(t *testing.T) {
					s := face(t, Route{
						Once: once, HTTP2: http2, Options: []core.CallOption{core.WithMaxHold(50 * time.Millisecond)},
						Handler: func(w http.ResponseWriter, r *http.Request) {
							h(w, r)
							<-r.Context().Done()
						},
					})
					res, err := s.Client().Do(s.NewRequest("GET", "/42", ""))
					if err != nil {
						t.Fatalf("no response: %v", err)
					}
					defer res.Body.Close()
					if _, err := io.ReadFull(res.Body, make([]byte, 5)); err != nil || res.StatusCode != 200 || (res.ProtoMajor == 2) != http2 {
						t.Errorf("the beginning: %s %s, %v", res.Proto, res.Status, err)
					}
					if _, err := io.Copy(io.Discard, res.Body); err == nil {
						t.Error("the response came to a clean end, want it broken")
					}
				})
			}
		}
	}
}

// NothingIsSentBeforeTheRelease: this holds for every response that can be kept back.
func NothingIsSentBeforeTheRelease(t *testing.T, face Face) {
	eng := NewEngine(t, NewStore())
	wrote, goOn := make(chan struct{}), make(chan struct{})
	s := face(t, Route{Engine: eng, Handler: func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, strings.Repeat("x", 10_000)) // more than net/http keeps back
		close(wrote)
		<-goOn
	}})
	began := make(chan *http.Response, 1)
	go func() {
		res, err := s.Client().Do(s.NewRequest("GET", "/42", ""))
		if err != nil {
			t.Error(err)
		}
		began <- res
	}()
	Receive(t, "the handler", wrote)
	select {
	case <-began:
		t.Error("the response came before the lock was released")
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	res := Receive(t, "the response", began)
	defer res.Body.Close()
	if IsHeld(t, eng, "k:42") {
		t.Error("the response came, and the lock is still held")
	}
	if data, err := io.ReadAll(res.Body); err != nil || len(data) != 10_000 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// ImpossibleStatus: an impossible status panics in the handler, as it does without a rule.
func ImpossibleStatus(t *testing.T, face Face) {
	for _, once := range []bool{false, true} {
		for _, status := range []int{0, 1000} {
			s := face(t, Route{Once: once, Handler: func(w http.ResponseWriter, _ *http.Request) {
				defer func() {
					if recover() == nil {
						t.Errorf("once %v, status %d: no panic", once, status)
					}
				}()
				w.WriteHeader(status)
			}})
			s.Do("GET", "/1", "")
		}
	}
}

// Levels: a key has levels only if its rule says so, whatever the values are.
func Levels(t *testing.T, face Face) {
	eng := NewEngine(t, NewStore())
	var claims []core.Claim
	s := face(t, Route{
		Engine: eng, Pattern: "/groups/{group}/members/{member}",
		Template: fmt.Sprintf(leveltest.Template, "path.group", "path.member"),
		Options:  []core.CallOption{core.WithHierarchy(), core.WithFailFast()},
		Handler: func(_ http.ResponseWriter, r *http.Request) {
			lease, _ := core.LeaseFrom(r.Context())
			claims = lease.Claims()
		},
	})
	leveltest.Run(t, eng, func(group, member string) []core.Claim {
		claims = nil
		a := s.Do("PUT", "/groups/"+url.PathEscape(group)+"/members/"+url.PathEscape(member), "")
		if want := map[bool]int{true: 409, false: 200}[claims == nil]; a.Status != want {
			t.Errorf("claims %v, answer %+v", claims, a)
		}
		return claims
	})
}
