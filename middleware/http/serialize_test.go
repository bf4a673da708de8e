package lockhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// TestOneAtATime: requests for one user through two servers; requests for
// different users do not wait for each other.
func TestOneAtATime(t *testing.T) {
	var inside, most, total atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), inside.Add(1)))
		time.Sleep(time.Millisecond) // the time in which another would be seen
		inside.Add(-1)
		total.Add(1)
		ok(w, r)
	}
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	sites := []*site{newSite(t), newSite(t)}
	for _, s := range sites {
		s.handle("PUT /users/{id}", handler, lockhttp.New(eng).Serialize("user:{path.id}"))
	}
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() {
			if a := sites[i%2].Do("PUT", "/users/42", ""); a.Status != 200 {
				t.Errorf("answer = %+v", a)
			}
		})
	}
	clients.Wait()
	if most.Load() != 1 || total.Load() != 20 {
		t.Errorf("%d requests, at most %d at a time; want 20, one at a time", total.Load(), most.Load())
	}
	lease := ruletest.MustAcquire(t, eng, "user:42")
	defer ruletest.MustRelease(t, lease)
	if a := sites[0].Do("PUT", "/users/43", ""); a.Status != 200 {
		t.Errorf("another user's request: %+v", a)
	}
}

// TestHeldUntilTheHandlerReturns: not until the client has gone.
func TestHeldUntilTheHandlerReturns(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	s := newSite(t)
	running, gone, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.handle("GET /{id}", func(w http.ResponseWriter, r *http.Request) {
		if lease, found := core.LeaseFrom(r.Context()); !found || lease.Key() != "user:42" || lease.Token() == 0 {
			t.Errorf("lease = %v, %v", lease, found)
		}
		close(running)
		<-r.Context().Done()
		close(gone)
		<-goOn
	}, lockhttp.New(eng).Serialize("user:{path.id}"))
	ctx, hangUp := context.WithCancel(context.Background())
	client := make(chan error, 1)
	go func() {
		_, err := s.Send(s.NewRequest("GET", "/42", "").WithContext(ctx))
		client <- err
	}()
	ruletest.Receive(t, "the handler", running)
	hangUp()
	ruletest.Receive(t, "the client", client)
	ruletest.Receive(t, "the handler's context to end", gone)
	if !ruletest.IsHeld(t, eng, "user:42") {
		t.Error("the lock was let go while the handler was running")
	}
	close(goOn)
	ruletest.Until(t, "the release", func() bool { return !ruletest.IsHeld(t, eng, "user:42") })
}

// TestAPanicReleases and goes on; whoever recovers can answer, although the
// handler had answered before. Once abandons its claim.
func TestAPanicReleases(t *testing.T) {
	recovering := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					text(w, 500, "recovered")
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
	for kind, rule := range map[string]func(*lockhttp.Locks) middleware{"Serialize": serialize("user:{path.id}"), "Once": once("user:{path.id}")} {
		t.Run(kind, func(t *testing.T) {
			eng := ruletest.NewEngine(t, ruletest.NewStore())
			s := newSite(t)
			var calls atomic.Int64
			s.handle("GET /{id}", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Etag", `"1"`)
				ok(w, r)
				if calls.Add(1) == 1 {
					panic("at the disco")
				}
			}, recovering, rule(lockhttp.New(eng)))
			if a := s.Do("GET", "/42", ""); a.Status != 500 || a.Body != "recovered" || a.Header.Get("Etag") != "" {
				t.Errorf("answer = %+v, want a 500 that keeps nothing of the handler's", a)
			}
			if ruletest.IsHeld(t, eng, "user:42") {
				t.Error("the lock is still held")
			}
			if a := s.Do("GET", "/42", ""); a.Status != 200 || replayed(a) {
				t.Errorf("second answer = %+v, want the handler's", a)
			}
		})
	}
}

// TestRunUnlocked: fail open is for outages, and only if the rule says so.
func TestRunUnlocked(t *testing.T) {
	st := ruletest.NewStore()
	st.BreakDown(ruletest.ErrDown, nil)
	locks := lockhttp.New(ruletest.NewEngine(t, st))
	s := newSite(t)
	s.handle("GET /serialize/{id}", ok, locks.Serialize("user:{path.id}", core.WithRunUnlocked()))
	s.handle("GET /once/{id}", ok, locks.Once("user:{path.id}", core.WithRunUnlocked()))
	for _, path := range []string{"/serialize/1", "/once/1", "/once/1"} {
		if a := s.Do("GET", path, ""); a.Status != 200 || a.Body != "done" || replayed(a) {
			t.Errorf("%s: %+v, want the handler's answer", path, a)
		}
	}
}

// TestALostLeaseBreaksWhatWasSent, over HTTP/1.1 and HTTP/2: no client takes a
// part for the whole, and the log is told.
func TestALostLeaseBreaksWhatWasSent(t *testing.T) {
	flushed := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "begun")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	t.Setenv("TMPDIR", t.TempDir()+"/missing") // or the large one would be kept back
	large := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 100<<10))
		<-r.Context().Done()
	}
	events := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: "+strings.Repeat("x", 10<<10)+"\n\n") // more than net/http keeps back
		<-r.Context().Done()
	}
	soon := core.WithMaxHold(50 * time.Millisecond)
	for _, http2 := range []bool{false, true} {
		for name, h := range map[string]http.HandlerFunc{"flushed": flushed, "large": large, "events": events} {
			for kind, rule := range map[string]func(*lockhttp.Locks) middleware{"Serialize": serialize("user", soon), "Once": once("user", soon)} {
				t.Run(fmt.Sprintf("HTTP/2 %v, %s, %s", http2, kind, name), func(t *testing.T) {
					log := quiet(t)
					s := ruletest.Serve(t, rule(lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore())))(h), http2)
					res, err := s.Client().Do(s.NewRequest("GET", "/42", ""))
					if err != nil {
						t.Fatalf("no response: %v", err)
					}
					defer res.Body.Close()
					if _, err := io.ReadFull(res.Body, make([]byte, 5)); err != nil || res.StatusCode != 200 {
						t.Errorf("the beginning: %s, %v", res.Status, err)
					}
					if _, err := io.Copy(io.Discard, res.Body); err == nil {
						t.Error("the response came to a clean end, want it broken")
					}
					if !strings.Contains(log.String(), "lost") {
						t.Errorf("log = %q, want the loss", log)
					}
				})
			}
		}
	}
}

// TestNothingIsSentBeforeTheRelease, as long as it can be kept back.
func TestNothingIsSentBeforeTheRelease(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	s := newSite(t)
	wrote, goOn := make(chan struct{}), make(chan struct{})
	s.handle("GET /{id}", func(w http.ResponseWriter, _ *http.Request) {
		text(w, 200, strings.Repeat("x", 10_000)) // more than net/http keeps back
		close(wrote)
		<-goOn
	}, lockhttp.New(eng).Serialize("user:{path.id}"))
	began := make(chan ruletest.Answer, 1)
	go func() { began <- s.Do("GET", "/42", "") }()
	ruletest.Receive(t, "the handler", wrote)
	select {
	case <-began:
		t.Error("the response came before the lock was released")
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	if a := ruletest.Receive(t, "the response", began); len(a.Body) != 10_000 {
		t.Errorf("%d bytes", len(a.Body))
	}
	if ruletest.IsHeld(t, eng, "user:42") {
		t.Error("the response came, and the lock is still held")
	}
}

// TestTheWriterIsStillNetHTTPs, for those who look for its abilities.
func TestTheWriterIsStillNetHTTPs(t *testing.T) {
	s := newSite(t)
	s.handle("GET /{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("SetWriteDeadline: %v", err)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("Flush: %v", err)
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "0\r\n\r\n") // the end of the chunked response that was begun
		rw.Flush()
		if _, err := w.Write([]byte("x")); err != http.ErrHijacked {
			t.Errorf("write after a hijack = %v", err)
		}
	}, lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore())).Serialize("user:{path.id}"))
	if a := s.Do("GET", "/1", ""); a.Status != 200 || a.Broken != nil {
		t.Errorf("answer = %+v", a)
	}
}

// TestAnImpossibleStatusPanicsInTheHandler, as it does without a rule.
func TestAnImpossibleStatusPanicsInTheHandler(t *testing.T) {
	s := newSite(t)
	s.handle("GET /{id}", func(w http.ResponseWriter, _ *http.Request) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		w.WriteHeader(1000)
	}, lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore())).Serialize("user:{path.id}"))
	s.Do("GET", "/1", "")
}
