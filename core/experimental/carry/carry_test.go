package carry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/core/internal/carried"
	"github.com/keyturn/keyturn/locktest"
)

// owner is one that an engine may make.
var owner = "host/7/1/t0pb4x/" + strings.Repeat("0a", 16)

func release(t *testing.T, l *core.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// A key that the caller holds is had in another process, and no longer than the caller has it.
func TestAcceptedLease(t *testing.T) {
	caller := locktest.New(t)
	callee := caller.Peer(t)
	l, err := caller.Engine.Acquire(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	ctx := carry.Accept(context.Background(), carry.Leases(l.Context()))
	work := func(context.Context) error { return nil }
	if err := callee.Engine.Do(ctx, "k", work, core.WithFailFast()); err != nil {
		t.Errorf("under the caller's lease: %v", err)
	}
	release(t, l)
	other, err := caller.Engine.Acquire(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, other)
	if err := callee.Engine.Do(ctx, "k", work, core.WithFailFast()); err == nil {
		t.Error("it is over, and had still")
	}
}

func TestLeases(t *testing.T) {
	eng := locktest.New(t).Engine
	if s := carry.Leases(context.Background()); s != "" {
		t.Errorf("none: %q", s)
	}
	ctx := context.Background()
	var leases []*core.Lease
	for i := range 10 {
		l, err := eng.Acquire(ctx, fmt.Sprintf("secret:%d", i))
		if err != nil {
			t.Fatal(err)
		}
		nested, err := eng.Acquire(l.Context(), l.Key()) // is not another one
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
		ctx = nested.Context()
	}
	s := carry.Leases(ctx)
	parts := strings.Split(s, ",")
	if len(parts) != 8 || !strings.HasPrefix(parts[0], leases[9].Owner()+";") || !strings.HasPrefix(parts[7], leases[2].Owner()+";") {
		t.Errorf("%d: %s", len(parts), s)
	}
	if strings.Contains(s, "secret") || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Errorf("not for a header: %q", s)
	}
	for _, l := range leases {
		release(t, l)
	}
	if s := carry.Leases(ctx); s != "" {
		t.Errorf("all released: %q", s)
	}

	var claims []core.Claim
	for i := range 600 { // too long for any header
		claims = append(claims, core.Exclusive(fmt.Sprint(i)))
	}
	long, err := eng.AcquireAll(context.Background(), claims)
	if err != nil {
		t.Fatal(err)
	}
	short, err := eng.Acquire(long.Context(), "short")
	if err != nil {
		t.Fatal(err)
	}
	if s := carry.Leases(short.Context()); !strings.HasPrefix(s, short.Owner()) || strings.Contains(s, ",") {
		t.Errorf("%d bytes", len(s))
	}
	release(t, short)
	release(t, long)
}

func TestMalformedTextIsIgnored(t *testing.T) {
	eng := locktest.New(t).Engine
	l, err := eng.Acquire(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, l)
	good := carry.Leases(l.Context())
	owner, token, claim := l.Owner(), fmt.Sprint(l.Token()), "e"+carried.HashKey("k")
	base := context.Background()
	for _, s := range []string{good, good + ", " + good, owner + ";" + token + ";0;10;" + claim, owner + ";" + token + ";0;86400000;" + claim} {
		if carry.Accept(base, s) == base {
			t.Errorf("%q is ignored", s)
		}
	}
	for _, s := range []string{
		owner + ";" + token + ";0;9;" + claim, owner + ";" + token + ";0;86400001;" + claim,
		"", ",", ";;;", "x", good + ",", good + ";", good + "\x00",
		strings.Repeat(good+",", 8) + good,
		strings.Repeat("a", 9<<10), good + strings.Repeat(claim, 500),
		"uuid;" + token + ";0;1000;" + claim,
		strings.ToUpper(owner) + ";" + token + ";0;1000;" + claim,
		"a:b" + owner + ";" + token + ";0;1000;" + claim,
		"*" + owner + ";" + token + ";0;1000;" + claim,
		owner + ";0;0;1000;" + claim,
		owner + ";-1;0;1000;" + claim,
		owner + ";" + token + ";;1000;" + claim,
		owner + ";" + token + ";-1;1000;" + claim,
		owner + ";" + token + ";1000;" + claim,
		owner + ";" + token + ";0;0;" + claim,
		owner + ";" + token + ";0;-5;" + claim,
		owner + ";" + token + ";0;1e3;" + claim,
		owner + ";" + token + ";0;1000;",
		owner + ";" + token + ";0;1000;e",
		owner + ";" + token + ";0;1000;x" + carried.HashKey("k"),
		owner + ";" + token + ";0;1000;e" + strings.Repeat("g", 16),
	} {
		if carry.Accept(base, s) != base {
			t.Errorf("%.80q is taken", s)
		}
	}
}

func FuzzAccept(f *testing.F) {
	f.Add(owner + ";7;0;1000;e" + carried.HashKey("k"))
	f.Add(owner + ";7;3;99999999999;s" + carried.HashKey("k") + "p" + carried.HashKey("l"))
	f.Fuzz(func(t *testing.T, s string) {
		once := carry.Leases(carry.Accept(context.Background(), s))
		if twice := carry.Leases(carry.Accept(context.Background(), once)); twice != once {
			t.Errorf("%q, %q", once, twice)
		}
	})
}
