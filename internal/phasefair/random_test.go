package phasefair_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest/model"
	"github.com/keyturn/keyturn/internal/phasefair"
)

// literal is a key as the model of package drivertest has it: it looks at everybody each
// time, and knows no bound of a step.
type literal struct {
	last    driver.Mode // of the holders, or of the last there were
	holders []request
	waiters []request // in order of arrival
}

type request struct {
	name  int
	claim driver.Claim
}

func (l *literal) enter(r request) {
	l.waiters = slices.DeleteFunc(l.waiters, func(w request) bool { return w == r })
	l.holders, l.last = append(l.holders, r), r.claim.Mode
}

// come is a new request: behind all that wait (M2).
func (l *literal) come(r request) {
	if len(l.waiters) == 0 && model.Fits(l.last, len(l.holders), r.claim) {
		l.enter(r)
		return
	}
	l.waiters = append(l.waiters, r)
}

// settle lets in whose turn it is.
func (l *literal) settle() {
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

func (l *literal) end(name int) {
	is := func(r request) bool { return r.name == name }
	l.holders, l.waiters = slices.DeleteFunc(l.holders, is), slices.DeleteFunc(l.waiters, is)
	l.settle()
}

func (l *literal) downgrade() {
	l.holders[0].claim, l.last = driver.Shared("k"), driver.ModeShared
	for _, w := range slices.Clone(l.waiters) {
		if w.claim.Mode == driver.ModeShared {
			l.enter(w)
		}
	}
}

// stepped is the same key by steps of this package.
type stepped struct {
	phasefair.Lock[*visitor]
	arrived uint64
}

// visitor is a member of a lock that made a request.
type visitor struct {
	request
	waits   bool
	arrived uint64
}

func (v *visitor) Standing() phasefair.Standing {
	return phasefair.Standing{Waits: v.waits, Mode: v.claim.Mode, Permits: v.claim.Permits, Arrived: v.arrived}
}

func (s *stepped) come(r request) {
	v := &visitor{request: r}
	if s.Admits(r.claim) {
		s.Phase = s.Phase.Entered(r.claim.Mode)
	} else {
		s.arrived += 1 + uint64(r.name%3) // it need not be dense
		v.waits, v.arrived = true, s.arrived
	}
	s.Members = append(s.Members, v)
}

// step takes one step, of at most so many.
func (s *stepped) step(most int) (more bool) {
	step := s.Step(most)
	s.Phase = step.Phase
	for _, v := range step.Granted {
		v.waits = false
	}
	return step.More
}

func (s *stepped) end(name int) {
	s.Members = slices.DeleteFunc(s.Members, func(v *visitor) bool { return v.name == name })
}

// in lists who is in: those that hold the key, and those that this phase owes it to.
func (s *stepped) in() (in []request) {
	for _, v := range s.Members {
		owed := s.Phase.Mode == driver.ModeShared && v.claim.Mode == driver.ModeShared && v.arrived <= s.Phase.Through
		if !v.waits || owed {
			in = append(in, v.request)
		}
	}
	return in
}

func names(all []request) string {
	var list []string
	for _, r := range all {
		list = append(list, fmt.Sprintf("%d:%v", r.name, r.claim.Mode))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestStepsAreTheModel plays random requests, ends and downgrades on both. Whatever the
// bound of a step, and however late its rest comes, those that are in or are owed the key are
// those that the model lets in.
func TestStepsAreTheModel(t *testing.T) {
	for seed := range uint64(4000) {
		if log, err := play(rand.New(rand.NewPCG(seed, 1))); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(log, "\n"))
		}
	}
}

func play(r *rand.Rand) (log []string, err error) {
	want, is, most := &literal{}, &stepped{}, 1+r.IntN(3)
	claims := []string{"x", "s", "s", "p1", "p2", "p3"}
	for n := range 40 {
		switch holders := is.Holders(); {
		case len(is.Members) == 0 || r.IntN(5) < 3:
			who := request{n, claimOf(claims[r.IntN(len(claims))])}
			log = append(log, fmt.Sprintf("%d comes for %v of %d", n, who.claim.Mode, who.claim.Permits))
			want.come(who)
			is.come(who)
		case len(holders) == 1 && is.Phase.Mode == driver.ModeExclusive && r.IntN(4) == 0:
			log = append(log, fmt.Sprintf("%d downgrades", holders[0].name))
			want.downgrade()
			is.Phase = is.Downgraded()
			holders[0].claim = driver.Shared("k")
		default:
			who := is.Members[r.IntN(len(is.Members))].name
			log = append(log, fmt.Sprintf("%d goes", who))
			want.end(who)
			is.end(who)
		}
		// The rest of the readers may come later while somebody waits for the phase to end. Where
		// nobody does, who comes next would have to wait for them.
		for is.step(most) && (is.Phase.Mode != driver.ModeShared || len(want.waiters) == 0 || r.IntN(2) == 0) {
			log = append(log, "the rest comes with another step")
		}
		if got := names(is.in()); got != names(want.holders) {
			return log, fmt.Errorf("in are %s, want %s", got, names(want.holders))
		}
	}
	return log, nil
}

// FuzzSteps is TestStepsAreTheModel for longer, with choices that follow what they reach.
func FuzzSteps(f *testing.F) {
	f.Add(uint64(7), uint64(1))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		if log, err := play(rand.New(rand.NewPCG(a, b))); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(log, "\n"))
		}
	})
}
