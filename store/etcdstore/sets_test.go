package etcdstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestGreatSet: a set of more claims than fit into one transaction is granted as a whole under one
// token, waits without holding anything behind the key that it waits for, and is released as a whole.
func TestGreatSet(t *testing.T) {
	t.Parallel()
	c := shared(t)
	a, b := open(t, c), open(t, c)
	all := claims(100, driver.Exclusive)
	set := storetest.RequestFor(time.Minute, all...)
	in := all[50].Key
	h := hold(t, a, request(in, time.Minute))

	_, err := b.Acquire(t.Context(), set)
	held := (*driver.HeldError)(nil)
	require(t, errors.As(err, &held) && held.Key == in, "a set of which %s is held: %v", in, err)
	storetest.Use(t, a, all[0].Key) // nothing was left behind

	w := enqueue(t, b, set)
	storetest.Use(t, a, all[99].Key)
	storetest.IsHeld(t, a, request(all[0].Key, time.Minute)) // it is before the one that the set waits for
	release(t, a, h)
	g := w.Granted()
	check(t, g.Token > h.Token, "token %d after %d", g.Token, h.Token)
	again, err := b.Acquire(t.Context(), set)
	check(t, err == nil && again.Token == g.Token, "asked again, the holder of token %d got %d, %v", g.Token, again.Token, err)
	must(t, b.Renew(t.Context(), []driver.Grant{again})[0])
	for _, i := range []int{0, 49, 99} {
		info, err := a.Inspect(t.Context(), all[i].Key)
		check(t, err == nil && len(info.Holders) == 1 && info.Holders[0].Token == g.Token, "%s: %+v, %v; want the token %d", all[i].Key, info.Holders, err, g.Token)
	}
	release(t, b, again)
	release(t, a, hold(t, a, set))
}

// reading has a process take a shared key and give it back, again and again, for as long as the test lasts.
func reading(t *testing.T, s driver.Store, key string, pause time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(pause) {
			if g, err := s.Acquire(ctx, storetest.RequestFor(time.Minute, driver.Shared(key))); err == nil {
				_ = s.Release(context.WithoutCancel(ctx), g)
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// TestGreatSetOfReaders: a reader that comes while a great set is granted gets a token of one of its
// keys. The set's token is greater, or the reader came later (A3).
func TestGreatSetOfReaders(t *testing.T) {
	t.Parallel()
	c := shared(t)
	a, b := open(t, c), open(t, c)
	all := claims(60, driver.Shared)
	reading(t, a, all[59].Key, 50*time.Millisecond) // the set needs a moment between two of its readers, also on a busy machine
	var last uint64
	for range 5 {
		g := hold(t, b, storetest.RequestFor(time.Minute, all...))
		before := hold(t, b, storetest.RequestFor(time.Minute, all[59]))
		check(t, g.Token > last && before.Token > g.Token, "tokens %d, %d after %d", g.Token, before.Token, last)
		last = before.Token
		release(t, b, before)
		release(t, b, g)
	}
}

// TestCrowdOfReaders: a process that takes a shared key all the time knows the lock by heart, and is
// always quicker than one that has to look first. The other one is let in all the same. It is not parallel: it
// leaves the server little time for others.
func TestCrowdOfReaders(t *testing.T) {
	c := shared(t)
	quick, other := open(t, c), open(t, c)
	reading(t, quick, "k", 0)
	for range 20 {
		release(t, other, hold(t, other, storetest.RequestFor(time.Minute, driver.Shared("k"))))
	}
}
