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

func acquire(t *testing.T, ctx context.Context, eng *core.Engine, keys ...string) *core.Lease {
	t.Helper()
	var claims []core.Claim
	for _, key := range keys {
		claims = append(claims, core.Exclusive(key))
	}
	l, err := eng.AcquireAll(ctx, claims)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func release(t *testing.T, leases ...*core.Lease) {
	t.Helper()
	for _, l := range leases {
		if err := l.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// What the store makes of them is tested in core.
func TestLeases(t *testing.T) {
	eng, ctx := locktest.New(t).Engine, context.Background()
	if s := carry.Leases(ctx); s != "" {
		t.Errorf("none: %q", s)
	}
	var leases []*core.Lease
	for i := range 10 {
		l := acquire(t, ctx, eng, fmt.Sprintf("secret:%d", i))
		leases = append(leases, l)
		ctx = acquire(t, l.Context(), eng, l.Key()).Context() // which is not another one
	}
	s := carry.Leases(ctx)
	parts := strings.Split(s, ",")
	if len(parts) != 8 || !strings.HasPrefix(parts[0], leases[9].Owner()+";") || !strings.HasPrefix(parts[7], leases[2].Owner()+";") {
		t.Errorf("%d: %s", len(parts), s)
	}
	if strings.Contains(s, "secret") || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Errorf("not for a header: %q", s)
	}
	release(t, leases...)
	if s := carry.Leases(ctx); s != "" {
		t.Errorf("all released: %q", s)
	}

	keys := make([]string, 600) // too long for any header
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	long := acquire(t, context.Background(), eng, keys...)
	short := acquire(t, long.Context(), eng, "short")
	if s := carry.Leases(short.Context()); !strings.HasPrefix(s, short.Owner()) || strings.Contains(s, ",") {
		t.Errorf("%d bytes", len(s))
	}
	release(t, short, long)
}

func TestMalformedTextIsIgnored(t *testing.T) {
	l := acquire(t, context.Background(), locktest.New(t).Engine, "k")
	defer release(t, l)
	good, claim := carry.Leases(l.Context()), "e"+carried.HashKey("k")
	parts := strings.NewReplacer("GOOD", good, "OWNER", l.Owner(), "UPPER", strings.ToUpper(l.Owner()), "T", fmt.Sprint(l.Token()), "CLAIM", claim)
	base := context.Background()
	for _, s := range []string{"GOOD", "GOOD, GOOD", "OWNER;T;0;10;CLAIM", "OWNER;T;0;86400000;CLAIM"} {
		if carry.Accept(base, parts.Replace(s)) == base {
			t.Errorf("%q is ignored", s)
		}
	}
	for _, s := range []string{
		"", ",", ";;;", "x", "GOOD,", "GOOD;", "GOOD\x00",
		strings.Repeat("GOOD,", 8) + "GOOD", strings.Repeat("a", 9<<10), "GOOD" + strings.Repeat("CLAIM", 500),
		"uuid;T;0;1000;CLAIM", "UPPER;T;0;1000;CLAIM", "a:bOWNER;T;0;1000;CLAIM", "*OWNER;T;0;1000;CLAIM",
		"OWNER;0;0;1000;CLAIM", "OWNER;-1;0;1000;CLAIM",
		"OWNER;T;;1000;CLAIM", "OWNER;T;-1;1000;CLAIM", "OWNER;T;1000;CLAIM",
		"OWNER;T;0;9;CLAIM", "OWNER;T;0;86400001;CLAIM", "OWNER;T;0;0;CLAIM", "OWNER;T;0;-5;CLAIM", "OWNER;T;0;1e3;CLAIM",
		"OWNER;T;0;1000;", "OWNER;T;0;1000;e", "OWNER;T;0;1000;x" + claim[1:], "OWNER;T;0;1000;e" + strings.Repeat("g", 16),
	} {
		if carry.Accept(base, parts.Replace(s)) != base {
			t.Errorf("%.80q is taken", s)
		}
	}
}

func FuzzAccept(f *testing.F) {
	owner := "host/7/1/t0pb4x/" + strings.Repeat("0a", 16) // one that an engine may make
	f.Add(owner + ";7;0;1000;e" + carried.HashKey("k"))
	f.Add(owner + ";7;3;99999999999;s" + carried.HashKey("k") + "p" + carried.HashKey("l"))
	f.Fuzz(func(t *testing.T, s string) {
		once := carry.Leases(carry.Accept(context.Background(), s))
		if twice := carry.Leases(carry.Accept(context.Background(), once)); twice != once {
			t.Errorf("%q, %q", once, twice)
		}
	})
}
