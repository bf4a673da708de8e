package core_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// lines is a log that says who asked: the value of asker in a line's context.
type lines struct {
	slog.Handler
	mu  sync.Mutex
	buf bytes.Buffer
}

type asker struct{}

func newLines() *lines {
	l := &lines{}
	l.Handler = slog.NewTextHandler(&l.buf, nil)
	return l
}

func (l *lines) Handle(ctx context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.AddAttrs(slog.Any("asker", ctx.Value(asker{})))
	return l.Handler.Handle(ctx, r)
}

// written are the lines without their times.
func (l *lines) written() (written []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		written = append(written, line)
	}
	return written
}

// wantLines fails unless the log has these lines, in order.
func (l *lines) wantLines(t *testing.T, want ...string) {
	t.Helper()
	got := l.written()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("not logged: %s", want[i])
		case i >= len(want) || !regexp.MustCompile("^"+want[i]+"$").MatchString(got[i]):
			t.Errorf("logged: %s", got[i])
		}
	}
}

// An operator learns of a lost lease also where nobody collects metrics, in the
// trace of its holder, and without the key.
func TestLossesAreLogged(t *testing.T) {
	ctx := context.WithValue(bg, asker{}, "the holder")
	for name, tc := range map[string]struct {
		opts []core.CallOption
		lose func(*spy, *core.Lease)
		want string // of the line
	}{
		"max hold": {
			opts: []core.CallOption{core.WithMaxHold(time.Second), core.WithRule("deliver")},
			want: `reason="max hold" owner=\S+ token=\d+ held=1s rule=deliver`,
		},
		"expired": {
			lose: func(s *spy, _ *core.Lease) {
				s.change(func() { s.onRenew = func(context.Context, driver.Grant) error { return errDown } })
			},
			want: `reason=expired owner=\S+ token=\d+ held=14\.848s`,
		},
		"released": {lose: func(_ *spy, l *core.Lease) { _ = l.Release(ctx) }},
	} {
		inBubble(t, name, func(t *testing.T) {
			log, spy := newLines(), newSpy()
			eng := newEngine(t, spy, core.WithLogger(slog.New(log)))
			l := acquireIn(t, ctx, eng, "k", tc.opts...)
			if tc.lose != nil {
				tc.lose(spy, l)
			}
			<-l.Context().Done()
			_ = l.Release(ctx)
			synctest.Wait() // the watchdog has told of the loss
			var want []string
			if tc.want != "" {
				want = append(want, `level=WARN msg="keyturn: lease lost" `+tc.want+` asker="the holder"`)
			}
			log.wantLines(t, want...)
		})
	}
}

// Many losses at a time are one event, and a slow log must not become a second one.
func TestManyLossesAreFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLines()
		eng := newEngine(t, newSpy(), core.WithLogger(slog.New(log)))
		lose := func(n int) {
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					l := mustAcquire(t, eng, fmt.Sprint(i), core.WithMaxHold(time.Millisecond))
					<-l.Context().Done()
					_ = l.Release(bg)
				})
			}
			all.Wait()
			synctest.Wait() // the watchdog has told of all losses
		}
		lose(1000)
		wantEqual(t, "lines", len(log.written()), 10)
		time.Sleep(10 * time.Second)
		lose(2)
		got := log.written()[10:] // in any order: a holder that wakes first logs its own loss
		if all := strings.Join(got, "\n"); len(got) != 2 || strings.Count(all, " unsaid=990 ") != 1 || strings.Count(all, "unsaid") != 1 {
			t.Errorf("after a while: %q", got)
		}
	})
}

// 20 000 leases with a TTL of 3 s were too many for a busy process. Nothing said so before the first
// of them were lost.
func TestSlowRenewalsAreLogged(t *testing.T) {
	for took, want := range map[time.Duration][]string{
		400 * time.Millisecond: nil,
		700 * time.Millisecond: {`level=WARN msg="keyturn: renewals take long, leases may be lost" leases=1000 took=700ms have=1s asker=<nil>`},
	} {
		inBubble(t, took.String(), func(t *testing.T) {
			s, log := newSpy(), newLines()
			eng := newEngine(t, s, core.WithTTL(3*time.Second), core.WithLogger(slog.New(log)))
			leases := make([]*core.Lease, 1000)
			for i := range leases {
				leases[i] = mustAcquire(t, eng, fmt.Sprint(i))
			}
			s.change(func() {
				s.onRenew = func(context.Context, driver.Grant) error { time.Sleep(took / 1000); return nil }
			})
			time.Sleep(1900 * time.Millisecond)
			log.wantLines(t, want...)
			for _, l := range leases {
				mustRelease(t, l)
			}
		})
	}
}
