package keystate_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/keystate"
)

// two is a state of two keys that nobody has used, of a backend that ends what is over by itself.
func two() *keystate.State {
	return &keystate.State{
		Now: time.UnixMicro(1000), Rules: &keystate.Rules{Untimed: true}, Keys: []*keystate.Key{{Name: "a"}, {Name: "b"}},
	}
}

func set(owner string, claims ...driver.Claim) *keystate.Request {
	return &keystate.Request{Request: driver.Request{Owner: owner, Claims: claims, TTL: time.Minute}}
}

// TestSeal: a part of a set has no token of the set until it is sealed, and then one that is greater than
// any that others have got meanwhile.
func TestSeal(t *testing.T) {
	s, part := two(), set("set", driver.Shared("a"), driver.Shared("b"))
	part.Part = true
	a, err := s.Acquire(part)
	require(t, err == nil && a.Held == nil && a.Token == 0 && a.Highest != 0, "a part got %+v, %v", a, err)
	token := a.Highest + 1
	late := &keystate.State{Now: s.Now, Rules: s.Rules, Keys: s.Keys[1:]}
	reader, err := late.Acquire(set("late", driver.Shared("b")))
	require(t, err == nil && reader.Token == token, "a reader got %+v, %v, want the token %d", reader, err, token)
	sealed, err := s.Seal(part, token)
	check(t, err == nil && sealed > token, "sealed with %d, %v, want above %d", sealed, err, token)
	again, err := s.Seal(part, sealed)
	check(t, err == nil && again == sealed && s.Keys[0].Last == sealed, "sealed again with %d, %v, want %d", again, err, sealed)
	a, err = s.Acquire(part)
	check(t, err == nil && a.Token == sealed, "asked again, the part got %+v, %v", a, err)
	must(t, s.Withdraw("set"))
	lost, err := s.Seal(part, sealed)
	check(t, err == nil && lost == 0, "a part that is lost was sealed with %d, %v", lost, err)
}

// TestSealAnew: a key that is sealed may have given a greater token meanwhile, to a process whose clock is ahead.
// A set that has to be sealed anew comes after that, too.
func TestSealAnew(t *testing.T) {
	s, part := two(), set("set", driver.Shared("a"), driver.Shared("b"))
	part.Part = true
	must(t, checktest.ErrorOf(s.Acquire(part)))
	at := func(ahead time.Duration, keys []*keystate.Key) *keystate.State {
		return &keystate.State{Now: s.Now.Add(ahead), Rules: s.Rules, Keys: keys}
	}
	first := set("set", driver.Shared("a"))
	first.Part = true
	token, err := at(0, s.Keys[:1]).Seal(first, s.Keys[1].Last+1)
	if err != nil || token == 0 {
		t.Fatal(token, err)
	}
	ahead, err := at(time.Second, s.Keys[:1]).Acquire(set("ahead", driver.Shared("a")))
	require(t, err == nil && ahead.Token > token, "got %+v, %v", ahead, err)
	must(t, checktest.ErrorOf(at(0, s.Keys[1:]).Acquire(set("late", driver.Shared("b")))))
	sealed, err := s.Seal(part, token)
	check(t, err == nil && sealed > ahead.Token, "sealed with %d, %v, although %d was given", sealed, err, ahead.Token)
}

// TestJoin: a request joins the queue of a key that it could have, and the next decision lets it in.
func TestJoin(t *testing.T) {
	s := two()
	m := s.Join(set("o", driver.Exclusive("a")))
	check(t, m.Waits && len(s.Woken) == 0, "joined as %+v, and woke %v", m, s.Woken)
	err := s.Settle()
	check(t, err == nil && s.Keys[0].Holding("o", 0) != nil, "the next decision has not let it in: %v", err)
}

// TestDowngraded: a lease that was downgraded does not linger, and its process still has its inbox.
func TestDowngraded(t *testing.T) {
	s, r := two(), set("o", driver.Exclusive("a"), driver.Exclusive("b"))
	r.Linger, r.Inbox = true, "inbox"
	a, err := s.Acquire(r)
	must(t, err)
	must(t, s.Downgrade(&driver.Grant{Owner: "o", Claims: set("o", driver.Shared("a"), driver.Exclusive("b")).Claims, Token: a.Token}))
	m := s.Keys[0].Find("o")
	check(t, !m.Lingers() && m.Inbox == r.Inbox, "a downgraded lease: %+v", m)
}

// TestOnlyEnds: a release lets nobody in, and the decision after it does.
func TestOnlyEnds(t *testing.T) {
	s := two()
	s.Keys = s.Keys[:1]
	g, err := s.Acquire(set("first", driver.Exclusive("a")))
	must(t, err)
	waits := set("second", driver.Exclusive("a"))
	waits.Wait = true
	a, err := s.Acquire(waits)
	require(t, err == nil && a.Held != nil && s.Refused, "got %+v, %v", a, err)
	s.OnlyEnds = true
	loss, err := s.Release(&driver.Grant{Owner: "first", Claims: []driver.Claim{driver.Exclusive("a")}, Token: g.Token})
	check(t, loss == nil && err == nil && len(s.Keys[0].Holders()) == 0 && s.Keys[0].Waiting() == 1, "released with %v, %v: %+v hold the key, %d wait", loss, err, s.Keys[0].Holders(), s.Keys[0].Waiting())
	s.OnlyEnds = false
	err = s.Settle()
	check(t, err == nil && s.Keys[0].Holding("second", 0) != nil, "the next decision has not let the waiter in: %v", err)
}

// TestUntimed: what only the backend ends is not over, whatever the time is.
func TestUntimed(t *testing.T) {
	s := two()
	s.Keys[0].Record = &keystate.Record{Owner: "o"}
	must(t, checktest.ErrorOf(s.Acquire(set("o", driver.Exclusive("a"), driver.Exclusive("b")))))
	s.Now = s.Now.Add(1000 * time.Hour)
	info := s.Show(s.Keys[0])
	check(t, info.Record != nil && info.Record.Left == 0 && len(info.Holders) == 1 && info.Holders[0].Left == 0, "shown: %+v", info)
}

// TestManyMembers: holders stay in the order of their tokens, waiters in that of their arrival, and every
// owner is found, however many there are and in whatever order they come and go.
func TestManyMembers(t *testing.T) {
	choices := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		k, in, size := &keystate.Key{Name: "k"}, map[string]*keystate.Member{}, 4+round%60
		for range 10 * size {
			owner := fmt.Sprint("owner ", choices.IntN(size))
			if m := in[owner]; m != nil {
				k.Remove(m)
				delete(in, owner)
			} else {
				m = &keystate.Member{Owner: owner, Waits: choices.IntN(2) == 0, Mode: driver.Mode(choices.IntN(3))}
				m.Token, m.Arrived = choices.Uint64N(1000), 1+choices.Uint64N(1000)
				in[owner] = m
				k.Add(m)
			}
			for i := range size {
				if owner := fmt.Sprint("owner ", i); k.Find(owner) != in[owner] {
					t.Fatalf("found %+v for %s, want %+v", k.Find(owner), owner, in[owner])
				}
			}
			holders, waiters := k.Holders(), k.Waiters()
			byArrival := func(a, b *keystate.Member) int { return cmp.Compare(a.Arrived, b.Arrived) }
			byToken := func(a, b *keystate.Member) int { return cmp.Compare(a.Token, b.Token) }
			require(t, slices.IsSortedFunc(holders, byToken) && slices.IsSortedFunc(waiters, byArrival), "holders %v, waiters %v", holders, waiters)
			if len(holders)+len(waiters) != len(in) || k.IsFree() != (len(in) == 0) || k.Waiting() != len(waiters) {
				t.Fatalf("%d holders and %d waiters of %d members", len(holders), len(waiters), len(in))
			}
		}
	}
}

// TestPlaceOfAWaiter stays for as long as the waiter asks.
func TestPlaceOfAWaiter(t *testing.T) {
	k := keyOf("x", 1, "")
	r := set("o", driver.Exclusive("k"))
	r.Wait = true
	for i := range 4 {
		s := &keystate.State{Now: time.UnixMicro(1000).Add(time.Duration(i) * 3 * time.Second), Keys: []*keystate.Key{k}, Rules: &keystate.Rules{Place: 5 * time.Second}}
		must(t, checktest.ErrorOf(s.Acquire(r)))
		must(t, s.Settle())
		check(t, k.Find("o").Until.Equal(s.Now.Add(5*time.Second)) && k.Waiters()[0].Since.Equal(time.UnixMicro(1000)), "question %d: %+v", i, k.Find("o"))
	}
}
