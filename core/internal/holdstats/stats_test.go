package holdstats_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/holdstats"
)

// anyTTL bounds nothing.
var anyTTL = holdstats.Bounds{Ceiling: math.MaxInt64}

// asked returns statistics that somebody uses.
func asked() *holdstats.Stats {
	var s holdstats.Stats
	s.TTL("", anyTTL)
	return &s
}

// A program that never asks pays nothing.
func TestNothingIsKeptBeforeTheFirstQuestion(t *testing.T) {
	var s holdstats.Stats
	if n := testing.AllocsPerRun(100, func() { s.Add("r", nil, time.Hour, true) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if got := s.RetryAfter("r", "", 0, time.Minute); got != 100*time.Millisecond {
		t.Errorf("an hour before the first question makes it %v", got)
	}
}

// usual is what 99 of 100 samples did not pass.
func usual(samples ...time.Duration) time.Duration {
	s := asked()
	for _, d := range samples {
		s.Add("", nil, d, true)
	}
	return s.TTL("", anyTTL) / 3
}

func claim(key string) []driver.Claim { return []driver.Claim{{Key: key}} }

func TestUsualHold(t *testing.T) {
	// The estimate is not less than what was held, and a quarter more at most.
	for d := time.Duration(0); d < 50*time.Hour; d = d*11/10 + 1 {
		if got := usual(slices.Repeat([]time.Duration{d}, 32)...); got < d || got > max(d+d/4, d+time.Millisecond) {
			t.Errorf("%v is taken for %v", d, got)
		}
	}
	if got := usual(append(slices.Repeat([]time.Duration{math.MaxInt64}, 32), -1)...); got < 24*time.Hour {
		t.Errorf("for ever is taken for %v", got)
	}
	short := slices.Repeat([]time.Duration{8 * time.Millisecond}, 99)
	if got := usual(append(short, time.Hour)...); got != 8*time.Millisecond {
		t.Errorf("one of a hundred makes it %v", got)
	}
	if got := usual(append(short, time.Hour, time.Hour)...); got < time.Hour {
		t.Errorf("two of a hundred and one leave it at %v", got)
	}
	if got := usual(append(slices.Repeat([]time.Duration{time.Hour}, 990), slices.Repeat([]time.Duration{time.Millisecond}, 110*64)...)...); got != time.Millisecond {
		t.Errorf("what is long over makes it %v", got)
	}
}

func TestTTL(t *testing.T) {
	s := asked()
	within := holdstats.Bounds{Floor: time.Second, Ceiling: time.Minute}
	want := func(what, rule string, want time.Duration) {
		t.Helper()
		if got := s.TTL(rule, within); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	want("nothing known", "", time.Minute)
	for range 31 {
		s.Add("a", claim("k"), time.Millisecond, true)
	}
	want("31 holds", "a", time.Minute)
	s.Add("a", claim("k"), time.Millisecond, false)
	want("32 holds, one of them lost", "a", time.Second)
	want("the engine's", "", time.Second)
	want("another rule's", "b", time.Minute)
	for range 32 {
		s.Add("b", claim("k"), time.Hour, true)
	}
	want("holds of an hour", "b", time.Minute)
	want("the other rule's still", "a", time.Second)
}

// There is room for 256 rules. Further ones share the estimate for all.
func TestRulesAreBounded(t *testing.T) {
	s := asked()
	for i := range 300 {
		for range 32 {
			s.Add(fmt.Sprint(i), nil, time.Millisecond, true)
		}
	}
	for range 1000 {
		s.Add("", nil, time.Hour, true)
	}
	if got := s.TTL("255", anyTTL); got != 3*time.Millisecond {
		t.Errorf("one of the first: %v", got)
	}
	if got := s.TTL("256", anyTTL); got < time.Hour {
		t.Errorf("one that there was no room for: %v", got)
	}
}

func TestRetryAfter(t *testing.T) {
	s := asked()
	want := func(what string, got, want time.Duration) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	const ms = time.Millisecond
	want("nothing known", s.RetryAfter("r", "k", 0, 0), 100*ms)
	want("only the lease", s.RetryAfter("r", "k", ms, 5*ms), 5*ms)
	// Nobody knows how long holders take. The lease says it for a dead one only.
	want("a first conflict", s.RetryAfter("r", "k", 0, 30*time.Second), 100*ms)
	want("held for longer than usual", s.RetryAfter("r", "k", 3*time.Second, 30*time.Second), 3*time.Second)
	s.Add("other", claim("other"), 80*ms, true)
	want("the engine's", s.RetryAfter("r", "k", 0, time.Hour), 80*ms)
	s.Add("r", claim("some"), 40*ms, true)
	want("the rule's", s.RetryAfter("r", "k", 0, time.Hour), 40*ms)
	s.Add("r", claim("k"), 4*ms, true)
	want("the key's", s.RetryAfter("r", "k", 0, time.Hour), 4*ms)
	want("no key", s.RetryAfter("other", "", 0, time.Hour), 80*ms)
	s.Add("r", claim("k"), time.Hour, false)
	want("a lost one does not count", s.RetryAfter("r", "k", 0, time.Hour), 4*ms)
	want("as long again", s.RetryAfter("r", "k", time.Second, time.Hour), time.Second)
	want("as long again, without an end", s.RetryAfter("r", "k", time.Second, 0), time.Second)
	s.Add("lost", nil, time.Hour, false)
	want("nor for its rule", s.RetryAfter("lost", "new", 0, 2*time.Hour), s.RetryAfter("", "newer", 0, 2*time.Hour))
	want("not beyond the lease", s.RetryAfter("r", "k", time.Second, 2*ms), 2*ms)
	s.Add("r", claim("k"), 12*ms, true)
	want("the last sample weighs an eighth", s.RetryAfter("r", "k", 0, 0), 5*ms)
	s.Add("r", claim("short"), 100*time.Microsecond, true)
	want("no shorter than a try", s.RetryAfter("r", "short", 0, time.Hour), ms)
}

// A key that callers were refused keeps its slot, however many others are held.
func TestRefusedKeysStay(t *testing.T) {
	s := asked()
	s.RetryAfter("", "k", 0, 0)
	s.Add("", claim("k"), time.Second, true)
	for i := range 100_000 {
		s.Add("", claim(fmt.Sprint(i)), time.Millisecond, true)
	}
	if got := s.RetryAfter("", "k", 0, 0); got != time.Second {
		t.Errorf("retry after %v", got)
	}
}
