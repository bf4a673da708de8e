package httprule_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/httprule"
)

// TestAnswersThatCannotBeKeptBack are told to the log, and not each of them.
func TestAnswersThatCannotBeKeptBack(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
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
