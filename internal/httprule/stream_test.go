package httprule_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// serve has h behind a rule, whose key is "k".
func serve(t *testing.T, h http.HandlerFunc, http2 bool, with ...func(*http.Server)) (s *ruletest.Site, held func() bool) {
	t.Helper()
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	s = ruletest.Serve(t, ruletest.Middleware(t, eng, lockhttp.Serialize("*", "k"))(h), http2, with...)
	return s, func() bool { return ruletest.IsHeld(t, eng, "k") }
}

// TestAStreamNobodyReads ends, and so does its hold of the key.
func TestAStreamNobodyReads(t *testing.T) {
	httprule.SetStall(t, 200*time.Millisecond)
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %v", http2), func(t *testing.T) {
			failed := make(chan error, 1)
			s, held := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				err := http.NewResponseController(w).Flush()
				for range 1000 {
					if err == nil {
						_, err = w.Write(make([]byte, 1<<20))
					}
				}
				failed <- err
			}, http2)
			res, err := s.Client().Do(s.NewRequest("GET", "/", ""))
			checktest.Must(t, err)
			defer res.Body.Close()
			if err := ruletest.Receive(t, "the handler", failed); err == nil {
				t.Error("1000 MiB were sent to a client that reads nothing")
			}
			ruletest.Until(t, "the release", func() bool { return !held() })
			if _, err := io.Copy(io.Discard, res.Body); err == nil {
				t.Error("the response came to a clean end, want it broken")
			}
		})
	}
}

// TestAStreamWithPauses is not taken for one that nobody reads; and whoever says
// how long a client may take is not contradicted.
func TestAStreamWithPauses(t *testing.T) {
	httprule.SetStall(t, 50*time.Millisecond)
	const pause = 150 * time.Millisecond
	piece := strings.Repeat("x", 16<<20) // more than the buffers on the way have
	events := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			fmt.Fprint(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(pause)
		}
	}
	deadline := func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, piece)
	}
	flushed := func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, piece)
	}
	patient := func(s *http.Server) { s.WriteTimeout = time.Minute }
	for _, http2 := range []bool{false, true} {
		for _, tt := range []struct {
			name   string
			h      http.HandlerFunc
			size   int
			server func(*http.Server)
		}{
			{"the server pauses", events, 3 * len("data: x\n\n"), func(*http.Server) {}},
			{"the client does, and the handler allows it", deadline, len(piece), func(*http.Server) {}},
			{"the client does, and the server allows it", flushed, len(piece), patient},
		} {
			t.Run(fmt.Sprintf("HTTP/2 %v, %s", http2, tt.name), func(t *testing.T) {
				s, _ := serve(t, tt.h, http2, tt.server)
				res, err := s.Client().Do(s.NewRequest("GET", "/", ""))
				checktest.Must(t, err)
				defer res.Body.Close()
				time.Sleep(pause)
				if n, err := io.Copy(io.Discard, res.Body); n != int64(tt.size) || err != nil {
					t.Errorf("%d bytes, %v; want %d", n, err, tt.size)
				}
			})
		}
	}
}

// TestServersWithoutTimeouts are warned about, once.
func TestServersWithoutTimeouts(t *testing.T) {
	var log bytes.Buffer
	ruletest.LogTo(t, &log)
	ok := func(http.ResponseWriter, *http.Request) {}
	for _, tt := range []struct {
		name   string
		server func(*http.Server)
		warns  bool
	}{
		{"reads in time", func(s *http.Server) { s.ReadTimeout = time.Minute }, false},
		{"writes in time", func(s *http.Server) { s.WriteTimeout = time.Minute }, false},
		{"reads the header in time", func(s *http.Server) { s.ReadHeaderTimeout = time.Minute }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			httprule.ForgetWarning()
			log.Reset()
			for range 2 {
				s, _ := serve(t, ok, false, tt.server)
				s.Do("GET", "/", "")
				s.Do("GET", "/", "")
				s.Close() // so that its log has been written
			}
			if n := strings.Count(log.String(), "without timeouts"); tt.warns != (n == 1) || n > 1 {
				t.Errorf("%d warnings: %s", n, &log)
			}
			if tt.warns && !strings.Contains(log.String(), "rule=k") {
				t.Errorf("log = %q, want the rule", &log)
			}
		})
	}
}

// TestAnswersThatCannotBeKeptBack are told to the log, and not each of them.
func TestAnswersThatCannotBeKeptBack(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	var log bytes.Buffer
	ruletest.LogTo(t, &log)
	httprule.ForgetWarning()
	s, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100_000)) }, false)
	for range 3 {
		if a := s.Do("GET", "/", ""); len(a.Body) != 100_000 || a.Broken != nil {
			t.Errorf("%d bytes, %v", len(a.Body), a.Broken)
		}
	}
	s.Close() // so that its log has been written
	if n := strings.Count(log.String(), "can't be kept back"); n != 1 || !strings.Contains(log.String(), "no such file") {
		t.Errorf("log = %s, want one line with the reason", &log)
	}
}

// TestClosedBodies: what a key function closes is still the handler's; what the handler closes is closed.
func TestClosedBodies(t *testing.T) {
	body := strings.Repeat("0123456789", 10_000)
	byBody := func(r *http.Request) string {
		defer r.Body.Close()
		first := make([]byte, 10)
		_, _ = io.ReadFull(r.Body, first)
		return string(first)
	}
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if data, err := io.ReadAll(r.Body); string(data) != body || err != nil {
			t.Errorf("the handler read %d bytes, %v", len(data), err)
		}
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
			t.Errorf("after Close: %v", err)
		}
	})
	inner := func(r *http.Request) string { return "inner:" + byBody(r) }
	for name, guarded := range map[string]http.Handler{
		"one rule":  ruletest.Middleware(t, eng, lockhttp.SerializeBy("*", byBody))(h),
		"two rules": ruletest.Middleware(t, eng, lockhttp.SerializeBy("*", byBody), lockhttp.SerializeBy("*", inner))(h),
	} {
		t.Run(name, func(t *testing.T) {
			if a := ruletest.Serve(t, guarded, false).Do("POST", "/", body); a.Status != 200 {
				t.Errorf("answer = %+v", a)
			}
		})
	}
}
