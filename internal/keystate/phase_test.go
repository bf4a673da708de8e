package keystate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/internal/keystate"
)

// claimOf reads what somebody wants: x, s, or p and the number of permits.
func claimOf(s string) driver.Claim {
	switch s[0] {
	case 'x':
		return driver.Exclusive("k")
	case 's':
		return driver.Shared("k")
	default:
		return driver.Permit("k", int(s[1]-'0'))
	}
}

// keyOf makes a key of so many holders, and of waiters that arrive one after the other. The name of a waiter
// is its number.
func keyOf(mode string, holders int, waiters string) *keystate.Key {
	k := &keystate.Key{Name: "k", Phase: keystate.Phase{Mode: claimOf(mode + "1").Mode}}
	for i := range holders {
		k.Add(&keystate.Member{Owner: fmt.Sprint("holder ", i), Mode: k.Mode, Token: uint64(i + 1)})
	}
	for i, w := range strings.Fields(waiters) {
		c := claimOf(w)
		k.Add(&keystate.Member{Owner: strconv.Itoa(i + 1), Waits: true, Mode: c.Mode, Permits: c.Permits, Arrived: uint64(i + 1)})
	}
	return k
}

// settle returns whom a decision lets in, which may let in so many; 0: all.
func settle(t *testing.T, k *keystate.Key, most int) (in string, more bool) {
	t.Helper()
	s := keystate.State{Now: time.UnixMicro(1000), Keys: []*keystate.Key{k}, Rules: &keystate.Rules{Untimed: true, Most: most}}
	must(t, s.Settle())
	var owners []string
	for _, w := range s.Woken {
		owners = append(owners, w.Owner)
	}
	return strings.Join(owners, " "), s.More
}

// TestReadersThatAreLeft come in with the next decisions. The writer that waits does not overtake them, and
// readers that come meanwhile do not belong to them.
func TestReadersThatAreLeft(t *testing.T) {
	k := keyOf("x", 0, "x s s s")
	in, more := settle(t, k, 2)
	require(t, in == "2 3" && more, "first: %s", in)
	k.Add(&keystate.Member{Owner: "5", Waits: true, Mode: driver.ModeShared, Arrived: 5})
	for _, m := range slices.Clone(k.Holders()) { // also if the first two have gone by now
		k.Remove(m)
	}
	in, more = settle(t, k, 2)
	check(t, in == "4" && !more, "second: %s", in)
}

// literal is a key as the model of package drivertest has it: it looks at everybody each time, and lets all in at once.
type literal struct {
	last    driver.Mode // of the holders, or of the last there were
	holders []visitor
	waiters []visitor // in order of arrival
}

type visitor struct {
	name  string
	claim driver.Claim
}

func (l *literal) enter(v visitor) {
	l.waiters = slices.DeleteFunc(l.waiters, func(w visitor) bool { return w == v })
	l.holders, l.last = append(l.holders, v), v.claim.Mode
}

// come is a new request: behind all that wait (M2).
func (l *literal) come(v visitor) {
	if len(l.waiters) == 0 && model.Fits(l.last, len(l.holders), v.claim) {
		l.enter(v)
		return
	}
	l.waiters = append(l.waiters, v)
}

func (l *literal) end(name string) {
	is := func(v visitor) bool { return v.name == name }
	l.holders, l.waiters = slices.DeleteFunc(l.holders, is), slices.DeleteFunc(l.waiters, is)
	for {
		before := slices.Clone(l.waiters)
		var claims []driver.Claim
		for _, w := range before {
			claims = append(claims, w.claim)
		}
		next := model.Next(l.last, len(l.holders), claims)
		if len(next) == 0 {
			return
		}
		for _, i := range next {
			l.enter(before[i])
		}
	}
}

func (l *literal) downgrade() {
	l.holders[0].claim, l.last = driver.Shared("k"), driver.ModeShared
	for _, w := range slices.Clone(l.waiters) {
		if w.claim.Mode == driver.ModeShared {
			l.enter(w)
		}
	}
}

func (l *literal) in() string {
	var in []string
	for _, v := range l.holders {
		in = append(in, v.name)
	}
	slices.Sort(in)
	return strings.Join(in, " ")
}

// in lists those that hold the key, and those that this phase owes it to.
func in(k *keystate.Key) string {
	var in []string
	for _, m := range slices.Concat(k.Holders(), k.Waiters()) {
		owed := k.Mode == driver.ModeShared && m.Mode == driver.ModeShared && m.Arrived <= k.Through
		if !m.Waits || owed {
			in = append(in, m.Owner)
		}
	}
	slices.Sort(in)
	return strings.Join(in, " ")
}

// TestFewAtATime plays random requests, ends and downgrades. However many a decision lets in, and however late
// the rest comes, those that are in or are owed the key are those that the model lets in.
func TestFewAtATime(t *testing.T) {
	for seed := range uint64(4000) {
		if log, err := play(rand.New(rand.NewPCG(seed, 1))); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(log, "\n"))
		}
	}
}

// FuzzFewAtATime is TestFewAtATime for longer, with choices that follow what they reach.
func FuzzFewAtATime(f *testing.F) {
	f.Add(uint64(7), uint64(1))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		if log, err := play(rand.New(rand.NewPCG(a, b))); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(log, "\n"))
		}
	})
}

func play(r *rand.Rand) (log []string, err error) {
	k, want := &keystate.Key{Name: "k"}, &literal{}
	rules := &keystate.Rules{Untimed: true, Most: 1 + r.IntN(3)}
	// decide leaves the rest to later decisions, but only while somebody waits for the phase to end. Where
	// nobody does, who comes next would have to wait for them.
	decide := func(do func(*keystate.State) error) error {
		for {
			s := &keystate.State{Now: time.UnixMicro(1000), Keys: []*keystate.Key{k}, Rules: rules}
			if err := do(s); err != nil {
				return err
			}
			if !s.More || k.Mode == driver.ModeShared && len(want.waiters) > 0 && r.IntN(2) == 0 {
				return nil
			}
			log, do = append(log, "the rest comes with another decision"), (*keystate.State).Settle
		}
	}
	claims := []string{"x", "s", "s", "p1", "p2", "p3"}
	for n := range 40 {
		holders, waiters := k.Holders(), k.Waiters()
		switch size := len(holders) + len(waiters); {
		case size == 0 || r.IntN(5) < 3:
			v := visitor{strconv.Itoa(n), claimOf(claims[r.IntN(len(claims))])}
			log = append(log, fmt.Sprintf("%s comes for %v of %d", v.name, v.claim.Mode, v.claim.Permits))
			want.come(v)
			req := &keystate.Request{Request: driver.Request{Owner: v.name, Claims: []driver.Claim{v.claim}, TTL: time.Minute, Wait: true}}
			err = decide(func(s *keystate.State) error { _, err := s.Acquire(req); return err })
		case len(holders) == 1 && k.Mode == driver.ModeExclusive && r.IntN(4) == 0:
			log = append(log, holders[0].Owner+" downgrades")
			want.downgrade()
			g := &driver.Grant{Owner: holders[0].Owner, Token: holders[0].Token, Claims: []driver.Claim{driver.Shared("k")}}
			err = decide(func(s *keystate.State) error { return s.Downgrade(g) })
		default:
			name := slices.Concat(holders, waiters)[r.IntN(size)].Owner
			log = append(log, name+" goes")
			want.end(name)
			err = decide(func(s *keystate.State) error { return s.Withdraw(name) })
		}
		if err != nil {
			return log, err
		}
		if got := in(k); got != want.in() {
			return log, fmt.Errorf("in are %s, want %s", got, want.in())
		}
	}
	return log, nil
}
