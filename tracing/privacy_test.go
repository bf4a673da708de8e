package tracing_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// shown is everything that a span says.
func shown(s *span) string {
	var b strings.Builder
	fmt.Fprintln(&b, s.name, s.text)
	writeAttrs(&b, "", s.attrs)
	for _, e := range s.events {
		fmt.Fprintln(&b, e.name)
		writeAttrs(&b, "", e.attrs)
	}
	return b.String()
}

// TestSpansTellNoSecrets: also not owners, which have the host's name in them, unless that is asked for.
func TestSpansTellNoSecrets(t *testing.T) {
	host, err := os.Hostname()
	must(t, err)
	plain := sha256.Sum256([]byte(key))
	forbidden := []string{host, "host-1", "a person", "a result", "192.0.2.1", "WRONGTYPE", string(secret), hex.EncodeToString(plain[:8])}
	for i, scene := range everything(t) {
		for _, s := range scene.rec.spans {
			text := shown(s)
			for _, who := range []attribute.Key{semconv.OwnerKey, semconv.HolderKey} {
				if owner, ok := s.attrs[who]; ok && i >= len(plays) && strings.HasPrefix(owner.AsString(), host+"/") { // WithOwners
					text = strings.ReplaceAll(text, owner.AsString(), "")
				} else if ok {
					t.Errorf("%s has the %s %q", s.name, who, owner.AsString())
				}
			}
			_, raw := s.attrs[semconv.KeyKey]
			_, hashed := s.attrs[semconv.KeyHashKey]
			check(t, !raw || !hashed, "%s has the key raw and hashed", s.name)
			for _, f := range forbidden {
				check(t, !strings.Contains(text, f), "%q in\n%s", f, text)
			}
			if hashed && (strings.Contains(text, key) || strings.Contains(text, "group:7")) {
				t.Errorf("a key in\n%s", text)
			}
		}
	}
}

// keyOf acquires a key and says how the hold shows it.
func keyOf(t *testing.T, opts []tracing.Option, call ...core.CallOption) (raw, hash string) {
	t.Helper()
	s := newScene(t, opts...)
	s.want(s.eng.Do(s.ctx, key, s.work(0), call...), nil)
	s.finish()
	hold := s.rec.named(semconv.SpanHold)[0]
	return hold.attrs[semconv.KeyKey].AsString(), hold.attrs[semconv.KeyHashKey].AsString()
}

func TestRawKeysAreOptIn(t *testing.T) {
	all, this, others := tracing.WithRawKeys(), tracing.WithRawKeysFor("x", rule), tracing.WithRawKeysFor("x")
	withRule := []core.CallOption{core.WithRule(rule)}
	for name, tt := range map[string]struct {
		opts []tracing.Option
		call []core.CallOption
		raw  bool
	}{
		"default":                  {},
		"all":                      {[]tracing.Option{all}, nil, true},
		"this rule":                {[]tracing.Option{this}, withRule, true},
		"the last one wins":        {[]tracing.Option{this, others}, withRule, false},
		"all, then some":           {[]tracing.Option{all, others}, withRule, false},
		"some, then all":           {[]tracing.Option{others, all}, withRule, true},
		"some rule, but it is not": {[]tracing.Option{others}, nil, false},
		"no rules":                 {[]tracing.Option{tracing.WithRawKeysFor()}, withRule, false},
	} {
		raw, hash := keyOf(t, tt.opts, tt.call...)
		if tt.raw && (raw != key || hash != "") || !tt.raw && (raw != "" || len(hash) != 16) {
			t.Errorf("%s: raw %q, hash %q", name, raw, hash)
		}
	}
}

func TestHashesMatchByTheSecret(t *testing.T) {
	mine := []byte("another secret of this test")
	_, known := keyOf(t, nil)
	_, again := keyOf(t, nil)
	_, other := keyOf(t, []tracing.Option{tracing.WithKeySecret(mine)})
	check(t, known == again, "the same secret gives %s and %s", known, again)
	if known == other {
		t.Error("different secrets give the same hash")
	}
	taken := tracing.WithKeySecret(mine)
	obs := newHooks(t, taken)
	clear(mine) // the observer has its own by now
	got := hashBy(t, obs)
	check(t, got == other, "hash %s after the caller's copy was wiped, want %s", got, other)
	a, b := newHooks(t), newHooks(t)
	if mine := hashBy(t, a); mine != hashBy(t, a) || mine == hashBy(t, b) {
		t.Error("without a secret, hashes of one observer differ, or those of two match")
	}
}

func newHooks(t testing.TB, opts ...tracing.Option) observe.Hooks {
	t.Helper()
	obs, err := tracing.New(append([]tracing.Option{tracing.WithTracerProvider(newRecorder())}, opts...)...)
	must(t, err)
	return obs
}

// hashBy asks obs directly, as no engine is needed for a hash.
func hashBy(t testing.TB, obs observe.Hooks) string {
	t.Helper()
	return started(t, obs, core.Exclusive(key)).attrs[semconv.KeyHashKey].AsString()
}

// started gives the span of an acquisition that begins and is refused.
func started(t testing.TB, obs observe.Hooks, claims ...core.Claim) *span {
	t.Helper()
	a := observe.Acquisition{Claims: claims}
	ctx := obs.AcquireStart(context.Background(), a)
	obs.AcquireEnd(ctx, a, nil, core.ErrHeld)
	return trace.SpanFromContext(ctx).(*span)
}

func TestInvalidKeysAreNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, tracing.WithRawKeys())
		bad := strings.Repeat("x", 1<<20)
		s.want(checktest.ErrorOf(s.eng.Once(s.ctx, bad, s.result(0))), core.ErrInvalidKey)
		s.finish()
		text := s.rec.tree()
		check(t, len(text) <= 1000, "%d bytes of spans", len(text))
	})
}

func TestLargeSetsAreCut(t *testing.T) {
	claims := make([]core.Claim, 40)
	for i := range claims {
		claims[i] = core.Exclusive(fmt.Sprint("k", i))
	}
	for list, opts := range map[attribute.Key][]tracing.Option{semconv.KeyHashesKey: nil, semconv.KeysKey: {tracing.WithRawKeys()}} {
		attrs := started(t, newHooks(t, opts...), claims...).attrs
		shown, all := len(attrs[list].AsStringSlice()), attrs[semconv.ClaimsKey].AsInt64()
		check(t, shown == 16 && all == 40, "%s: %d keys shown of %d", list, shown, all)
	}
}

// TestForeignHoldersAreCut: a foreign client may have written anything.
func TestForeignHoldersAreCut(t *testing.T) {
	obs := newHooks(t, tracing.WithOwners())
	a := observe.Acquisition{Claims: []core.Claim{core.Exclusive(key)}}
	ctx := obs.AcquireStart(context.Background(), a)
	obs.Blocked(ctx, a, core.HeldError{Key: key, Holder: "\xff" + strings.Repeat("x", 1<<20)}, 0)
	obs.AcquireEnd(ctx, a, nil, core.ErrHeld)
	got := trace.SpanFromContext(ctx).(*span).attrs[semconv.HolderKey].AsString()
	check(t, len(got) <= 300 && strings.HasPrefix(got, "\uFFFDxxx"), "a holder of %d bytes: %.20q", len(got), got)
}
