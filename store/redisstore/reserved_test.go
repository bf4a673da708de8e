package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// wants is a request for key that wants n tokens reserved for hand-offs.
func wants(owner, key string, n uint64) driver.Request {
	return driver.Request{Owner: owner, Claims: []driver.Claim{driver.Exclusive(key)}, TTL: time.Minute, HandOffs: n}
}

// TestTokensFollowWhatIsReserved on whatever way the next grant takes, with a counter that is
// ahead of the clock: there the clock does not hide a token that is given twice. The lead is
// less than what a grant may reserve, as the tests' machine takes its time.
func TestTokensFollowWhatIsReserved(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	ctx := within(t, 20*time.Second)
	reserved := uint64(0)
	for round := range 50 {
		for name, next := range map[string]driver.Request{
			"plain":  wants("next", "k", 1000),
			"shared": {Owner: "next", Claims: []driver.Claim{driver.Shared("k")}, TTL: time.Minute},
			"set":    {Owner: "next", Claims: []driver.Claim{driver.Exclusive("j"), driver.Exclusive("k")}, TTL: time.Minute},
		} {
			next.Owner = fmt.Sprint("next", round, name) // a late copy of a request must not meet its owner again
			g, err := s.Acquire(ctx, wants(fmt.Sprint("o", round, name), "k", 1000))
			if err != nil {
				t.Fatal(err)
			}
			reserved = max(reserved, g.HandOffs)
			release(t, s, g)
			got, err := s.Acquire(ctx, next)
			if err != nil {
				t.Fatal(err)
			}
			if got.Token <= g.Token+g.HandOffs {
				t.Errorf("round %d, %s: token %d follows %d with %d reserved", round, name, got.Token, g.Token, g.HandOffs)
			}
			release(t, s, got)
		}
	}
	if reserved != 1000 {
		t.Errorf("%d tokens were reserved at most", reserved)
	}
}

// TestTokensOfABatchAreApart: many grants of one moment, each with its own reserved tokens.
func TestTokensOfABatchAreApart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	ctx := within(t, 20*time.Second)
	const callers, rounds = 64, 20
	owner := map[uint64]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for round := range rounds {
				me := fmt.Sprint("o", i, ".", round)
				g, err := s.Acquire(ctx, wants(me, me, uint64(i%8)))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for token := g.Token; token <= g.Token+g.HandOffs; token++ {
					if other, taken := owner[token]; taken {
						t.Errorf("token %d is %s's and %s's", token, other, me)
					}
					owner[token] = me
				}
				mu.Unlock()
				release(t, s, g)
			}
		})
	}
	all.Wait()
}

// TestNothingIsReservedBehindTheClock that was set back: the tokens count on from the last,
// and run no further ahead of it than they are.
func TestNothingIsReservedBehindTheClock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	ctx := within(t, 20*time.Second)
	last := uint64(time.Now().Add(time.Hour).UnixMicro())
	server.Client().Set(ctx, "{lock:}:token", last, 0)
	for i := range uint64(5) {
		g, err := s.Acquire(ctx, wants("o", "k", 1000))
		if err != nil {
			t.Fatal(err)
		}
		if g.Token != last+1+i || g.HandOffs != 0 {
			t.Errorf("token %d with %d reserved, after %d", g.Token, g.HandOffs, last+i)
		}
		release(t, s, g)
	}
}

// TestWhatIsReservedIsRemembered by the server: a process without messages finds its grant by
// asking, and a borrower's text is compared with it.
func TestWhatIsReservedIsRemembered(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	ctx := within(t, 20*time.Second)
	first := lock(t, s, "first", "k", time.Minute)
	w := make(chan driver.Grant, 1)
	go func() {
		req := wants("o", "k", 15)
		req.Wait = true
		g, err := s.Acquire(ctx, req)
		if err != nil {
			t.Error(err)
		}
		w <- g
	}()
	eventually(t, startup, "it is in line", func() bool { return waiting(t, server, "k") == 1 })
	release(t, s, first)
	g := <-w
	again, err := s.Acquire(ctx, wants("o", "k", 15))
	if err != nil || g.HandOffs != 15 || again.HandOffs != 15 || again.Token != g.Token {
		t.Errorf("granted %+v, and asked again %+v, %v", g, again, err)
	}
	release(t, s, g)
}

// TestTokensInDoubles: the server's own Lua has no other numbers, nor has JSON in many
// clients. Neighbours stay apart and in order, also at the end of the year 2199.
func TestTokensInDoubles(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	s := open(t, client)
	ctx := within(t, 20*time.Second)
	for _, last := range []int64{0, time.Date(2199, 12, 31, 23, 59, 59, 0, time.UTC).UnixMicro()} {
		if last > 0 {
			client.Set(ctx, "{lock:}:token", last, 0)
		}
		before := "0"
		for range 5 {
			g := lock(t, s, "o", "k", time.Minute)
			token := strconv.FormatUint(g.Token, 10)
			if g.Token <= uint64(last) {
				t.Errorf("token %d follows %d", g.Token, last)
			}
			said, err := client.Eval(ctx, readAsDoubles, nil, before, token).Text()
			if want := token + " " + token + " rises"; err != nil || said != want {
				t.Errorf("a script reads %q, %v; want %q", said, err, want)
			}
			before = token
			release(t, s, g)
		}
	}
}

// readAsDoubles reads a token by tonumber and by cjson, and compares it with the one before.
const readAsDoubles = `
local before, token = tonumber(ARGV[1]), tonumber(ARGV[2])
local decoded = cjson.decode('{"token":' .. ARGV[2] .. '}').token
local order = (token > before and token - 1 ~= token and token + 1 ~= token and decoded == token) and 'rises' or 'falls'
return string.format('%.0f %.0f %s', token, decoded, order)
`

// TestCounterCoversWhatIsReserved: the counter is at the last token that may be given, so
// nobody need say how many were.
func TestCounterCoversWhatIsReserved(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() (driver.Store, redis.UniversalClient, string){
		"single": func() (driver.Store, redis.UniversalClient, string) {
			server := redistest.Start(t)
			return open(t, server.Client()), server.Client(), "{lock:}:token"
		},
		"cluster": func() (driver.Store, redis.UniversalClient, string) {
			_, client := startCluster(t)
			return open(t, client), client, "{lock:k}:t"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, client, counter := start()
			g, err := s.Acquire(within(t, 20*time.Second), wants("o", "k", 15))
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			if n, err := client.Get(ctx, counter).Uint64(); err != nil || n != g.Token+15 || g.HandOffs != 15 {
				t.Errorf("the counter is %d, %v, the token %d with %d reserved", n, err, g.Token, g.HandOffs)
			}
			if v := client.Get(ctx, "lock:k").Val(); !strings.HasPrefix(v, fmt.Sprint("o:", g.Token, ":15:")) {
				t.Errorf("the lock says %q", v)
			}
			release(t, s, g)
		})
	}
}
