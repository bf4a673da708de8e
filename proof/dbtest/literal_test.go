package dbtest

import (
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/sqltest"
)

// TestHostileTexts: whatever a key or a note contains, it is data. On MySQL it becomes a part of the statement. The
// contract has results with every byte.
func TestHostileTexts(t *testing.T) {
	onEach(t, func(t *testing.T, d *sqltest.Database) {
		s := open(t, d.Open(t), dialectOf(d))
		// A rule's name is longer than the column that MariaDB has for it.
		l := lease(t, engineOn(t, s), "long", core.WithRule(strings.Repeat("é", driver.MaxNoteBytes)+"!"))
		must(t, l.Release(t.Context()))
		for _, text := range []string{`'; DROP TABLE keyturn_lock; --`, `\'"?$1`, "ключ·鍵", "_ascii x'00'"} {
			req := request(text, time.Minute)
			req.Rule, req.Trace = text, text
			g, _, err := s.Begin(t.Context(), req)
			must(t, err)
			info, err := s.Inspect(t.Context(), text)
			if err != nil || len(info.Holders) != 1 || info.Holders[0].Rule != text || info.Holders[0].Trace != text {
				t.Errorf("%q: %+v, %v", text, info, err)
			}
			must(t, s.Complete(t.Context(), g, driver.Record{Fingerprint: []byte(text), Result: []byte(text)}, time.Minute))
			_, got, err := s.Begin(t.Context(), request(text, time.Minute))
			if err != nil || got == nil || string(got.Result) != text || string(got.Fingerprint) != text {
				t.Errorf("%q: the record is %+v, %v", text, got, err)
			}
		}
	})
}
