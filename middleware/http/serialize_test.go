package lockhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// TestALossThatCannotBeAnsweredIsLogged, as the response has been sent in part.
func TestALossThatCannotBeAnsweredIsLogged(t *testing.T) {
	log := quiet(t)
	s := newSite(t)
	s.handle("GET /{id}", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "user:{path.id}", core.WithMaxHold(20*time.Millisecond))))
	if a := s.Do("GET", "/42", ""); a.Broken == nil {
		t.Errorf("answer = %+v, want it broken", a)
	}
	ruletest.Until(t, "the log", func() bool { return strings.Contains(log.String(), "lost") })
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
	}, ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "user:{path.id}")))
	if a := s.Do("GET", "/1", ""); a.Status != 200 || a.Broken != nil {
		t.Errorf("answer = %+v", a)
	}
}
