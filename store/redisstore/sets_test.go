package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// topologies are where a set is one script, and where it is many.
var topologies = map[string]func(testing.TB) ([]*redistest.Server, redis.UniversalClient){
	"single": func(t testing.TB) ([]*redistest.Server, redis.UniversalClient) {
		server := redistest.Start(t)
		return []*redistest.Server{server}, server.Client()
	},
	"cluster": startCluster,
	"ring":    startRing,
}

func TestSetsEverywhere(t *testing.T) {
	t.Parallel()
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := start(t)
			a, b := open(t, client, quickLooks), open(t, client, quickLooks)
			before := []driver.Grant{
				lease(t, b, "before", driver.Exclusive("a")), lease(t, b, "before", driver.Exclusive("b")), lease(t, b, "before", driver.Exclusive("c")),
			}
			for _, g := range before {
				release(t, b, g)
			}
			claims := []driver.Claim{driver.Exclusive("a"), driver.Shared("b"), driver.Permit("c", 2)}
			g := lease(t, a, "o", claims...)
			for _, old := range before {
				if g.Token <= old.Token {
					t.Errorf("token %d of %q follows %d", g.Token, old.Claims[0].Key, old.Token)
				}
			}
			if again := lease(t, a, "o", claims...); again.Token != g.Token {
				t.Errorf("asked again: token %d became %d", g.Token, again.Token)
			}
			for _, c := range claims {
				info, err := a.Inspect(within(t, time.Second), c.Key)
				if err != nil || len(info.Holders) != 1 || info.Holders[0].Token != g.Token || info.Mode != c.Mode {
					t.Errorf("%v: %+v, %v", c, info, err)
				}
				// A part of a set is this owner's.
				if err := renew(t, a, driver.Grant{Owner: "o", Claims: []driver.Claim{c}, TTL: time.Minute, Token: g.Token}); err != nil {
					t.Errorf("%v alone: %v", c, err)
				}
			}
			if e := held(t, b, driver.Exclusive("A"), driver.Exclusive("c")); e.Key != "c" || e.Holder != "o" {
				t.Errorf("%+v", e)
			}
			release(t, b, lease(t, b, "n", driver.Exclusive("A"))) // the refused set holds nothing

			w := enqueueFor(t, b, "w", driver.Exclusive("A"), driver.Exclusive("a"), driver.Shared("b"))
			if e := held(t, b, driver.Exclusive("A")); e.Holder != "w" {
				t.Errorf("what is before the claim that is waited for is held by %q", e.Holder)
			}
			release(t, a, g)
			next := w.granted(3 * time.Second)
			if next.Token <= g.Token {
				t.Errorf("token %d follows %d", next.Token, g.Token)
			}
			// One lost is all lost, and the rest is freed.
			if _, err := a.ForceRelease(within(t, time.Second), "a", "stuck"); err != nil {
				t.Fatal(err)
			}
			var loss *driver.LeaseLostError
			if err := renew(t, b, next); !errors.As(err, &loss) || loss.Reason != driver.LossForced || loss.Detail != "stuck" || loss.Key != "a" {
				t.Errorf("Renew: %v", err)
			}
			loss = nil
			if err := b.Release(within(t, time.Second), next); !errors.As(err, &loss) || loss.Reason != driver.LossForced {
				t.Errorf("Release: %v", err)
			}
			release(t, a, lease(t, a, "last", driver.Exclusive("A"), driver.Exclusive("a"), driver.Exclusive("b"), driver.Exclusive("c")))
		})
	}
}

// TestWaitingSetKeepsWhatItHas, for longer than its TTL, and gives it back when
// it gives up.
func TestWaitingSetKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := start(t)
			s := open(t, client, quickLooks)
			g := lease(t, s, "holder", driver.Exclusive("b"))
			req := driver.Request{
				Owner: "set", TTL: 300 * time.Millisecond, Claims: []driver.Claim{driver.Shared("a"), driver.Exclusive("b"), driver.Exclusive("c")},
			}
			w := wait(t, s, req)
			for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if e := held(t, s, driver.Exclusive("a")); e.Holder != "set" {
					t.Fatalf("%+v", e)
				}
			}
			release(t, s, lease(t, s, "n", driver.Exclusive("c"))) // nothing behind the claim that is waited for
			w.cancel()
			w.refused(soon)
			release(t, s, lease(t, s, "n", driver.Exclusive("a")))
			release(t, s, g)
			release(t, s, lease(t, s, "n", driver.Exclusive("a"), driver.Exclusive("b"), driver.Exclusive("c")))
		})
	}
}

// TestSetsDoNotDeadlock: many want overlapping sets, in every mode.
func TestSetsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := start(t)
			stores := []driver.Store{open(t, client, quickLooks), open(t, client, quickLooks)}
			var all sync.WaitGroup
			var mu sync.Mutex
			writers, readers := map[string]int{}, map[string]int{}
			for i := range 6 {
				all.Go(func() {
					for round := range 5 {
						keys := []string{"a", "b", "c", "d"}
						n := (i + round) % 3
						var claims []driver.Claim
						for k, key := range keys[n : n+2] {
							if (i+k+round)%3 == 0 {
								claims = append(claims, driver.Shared(key))
							} else {
								claims = append(claims, driver.Exclusive(key))
							}
						}
						ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
						s := stores[i%2]
						g, err := s.Acquire(ctx, driver.Request{Owner: fmt.Sprint("o", i, ".", round), Claims: claims, TTL: 10 * time.Second, Wait: true})
						if err != nil {
							t.Errorf("%d, %v: %v", i, claims, err)
							cancel()
							return
						}
						count := func(d int) {
							mu.Lock()
							defer mu.Unlock()
							for _, c := range claims {
								if c.Mode == driver.ModeShared {
									readers[c.Key] += d
								} else {
									writers[c.Key] += d
								}
								if writers[c.Key] > 1 || writers[c.Key] > 0 && readers[c.Key] > 0 {
									t.Errorf("%q: %d writers and %d readers", c.Key, writers[c.Key], readers[c.Key])
								}
							}
						}
						count(1)
						count(-1)
						if err := s.Release(ctx, g); err != nil {
							t.Errorf("Release: %v", err)
						}
						cancel()
					}
				})
			}
			all.Wait()
		})
	}
}

// TestLargestSet is that of a template's bound: several scripts, one grant.
func TestLargestSet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	claims := make([]driver.Claim, 4096)
	for i := range claims {
		claims[i] = driver.Exclusive(fmt.Sprintf("member:%05d", i))
		if i%2 == 1 {
			claims[i] = driver.Shared(claims[i].Key)
		}
	}
	g := lease(t, s, "o", claims...)
	for _, key := range []string{claims[0].Key, claims[255].Key, claims[256].Key, claims[4095].Key} {
		info, err := s.Inspect(within(t, time.Second), key)
		if err != nil || len(info.Holders) != 1 || info.Holders[0].Token != g.Token {
			t.Errorf("%+v, %v", info, err)
		}
	}
	if err := renew(t, s, g); err != nil {
		t.Error(err)
	}
	if e := held(t, s, append([]driver.Claim{driver.Exclusive("a")}, claims[4000:]...)...); e.Key != claims[4000].Key {
		t.Errorf("%+v", e)
	}
	release(t, s, g)
	last := lease(t, s, "last", claims[4095])
	if e := held(t, s, append([]driver.Claim(nil), append(claims[:4095:4095], driver.Exclusive(claims[4095].Key))...)...); e.Key != claims[4095].Key {
		t.Errorf("%+v", e)
	}
	release(t, s, last)
	// On a busy machine the refusal may come before the last steps have given back what it had.
	eventually(t, 10*time.Second, "no keys are left behind", func() bool { return len(keysLeft(t, server)) == 0 })
}

// TestRefusedSetHoldsNothing, also when it is the line that is in its way, which
// shows only after it has taken what is before.
func TestRefusedSetHoldsNothing(t *testing.T) {
	t.Parallel()
	for name, start := range topologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := start(t)
			s := open(t, client, quickLooks)
			lease(t, s, "reader", driver.Shared("k"))
			enqueueFor(t, s, "writer", driver.Exclusive("k"))
			if e := held(t, s, driver.Exclusive("a"), driver.Shared("b"), driver.Shared("k")); e.Key != "k" || e.Ahead != 1 {
				t.Errorf("%+v", e)
			}
			for _, key := range []string{"a", "b"} {
				if info, err := s.Inspect(within(t, time.Second), key); err != nil || len(info.Holders) > 0 {
					t.Errorf("%+v, %v", info, err)
				}
			}
		})
	}
}

// TestSetsTokenCountsForAllItsKeys: where every key has a counter of its own, that
// of the one that is ahead of the clock becomes that of all.
func TestSetsTokenCountsForAllItsKeys(t *testing.T) {
	t.Parallel()
	_, client := startCluster(t)
	s := open(t, client)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	client.Set(context.Background(), "{lock:b}:t", ahead, time.Hour)
	set := lease(t, s, "o", driver.Exclusive("a"), driver.Exclusive("b"))
	if set.Token <= uint64(ahead) {
		t.Errorf("token %d follows %d", set.Token, ahead)
	}
	release(t, s, set)
	if next := lease(t, s, "next", driver.Exclusive("a")); next.Token <= set.Token {
		t.Errorf("token %d follows %d", next.Token, set.Token)
	}
}
