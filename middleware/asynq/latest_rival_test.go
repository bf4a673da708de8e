package lockasynq

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
)

func TestWhichTaskIsTheNewer(t *testing.T) {
	const self, another = "host/1/1/a/00", "host/2/1/b/00"
	came := time.Now()
	for _, tt := range []struct {
		name   string
		by     rival
		yields bool
	}{
		{"later", rival{came.Add(time.Millisecond), self}, true},
		{"later, and did not see it", rival{came.Add(time.Millisecond), another}, true},
		{"just before, and slower", rival{came.Add(-time.Millisecond), self}, false},
		{"before, and did not see it", rival{came.Add(-time.Minute), another}, false},
		{"a clock that is late", rival{came.Add(-time.Minute), self}, true},
	} {
		by, ok := parseRival(&core.LeaseLostError{Reason: core.LossForced, Detail: tt.by.String()})
		if yields := (rival{came: came}).yieldsTo(by, self); !ok || yields != tt.yields {
			t.Errorf("%s: yields %v to %v (%v)", tt.name, yields, by, ok)
		}
	}
	for _, detail := range []string{"", "an operator", supersedes, supersedes + "x y", supersedes + "2026-01-01T00:00:00Z"} {
		if by, ok := parseRival(&core.LeaseLostError{Detail: detail}); ok {
			t.Errorf("%q is taken for %v", detail, by)
		}
	}
}
