package memstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// play is one key, and who comes and goes. Names say what they want: w is
// exclusive, r shared, and p2 one of two permits.
type play struct {
	*testing.T
	store  *Store
	waits  map[string]chan outcome
	giveUp map[string]context.CancelFunc
	grants map[string]driver.Grant
	tokens []uint64
}

const term = 9 * time.Second

func claimOf(name string) driver.Claim {
	switch name[0] {
	case 'w':
		return driver.Exclusive("k")
	case 'r':
		return driver.Shared("k")
	default:
		return driver.Permit("k", int(name[1]-'0'))
	}
}

func (p *play) ask(name string) {
	ctx, giveUp := context.WithCancel(bg)
	done := make(chan outcome, 1)
	p.waits[name], p.giveUp[name] = done, giveUp
	go func() {
		var o outcome
		o.grant, o.err = p.store.Acquire(ctx, driver.Request{Owner: name, Claims: []driver.Claim{claimOf(name)}, TTL: term, Wait: true})
		done <- o
	}()
}

func (p *play) look() {
	synctest.Wait()
	for name, done := range p.waits {
		select {
		case o := <-done:
			delete(p.waits, name)
			if o.err == nil {
				p.grants[name] = o.grant
				p.tokens = append(p.tokens, o.grant.Token)
			} else if !errors.Is(o.err, driver.ErrHeld) {
				p.Errorf("%s: %v", name, o.err)
			}
		default:
		}
	}
}

// die lets the lease run out, while the others renew.
func (p *play) die(name string) {
	delete(p.grants, name)
	for range 10 {
		time.Sleep(time.Second)
		p.look()
		for other, g := range p.grants {
			if err := p.store.Renew(bg, []driver.Grant{g})[0]; err != nil {
				p.Errorf("%s: %v", other, err)
			}
		}
	}
}

// step is one word of a plot: "+w" asks, "-w" releases, "~w" gives up waiting,
// "!w" dies, "/w" downgrades, "=w,r" says who holds the key by now.
func (p *play) step(word string) {
	do, name := word[0], word[1:]
	switch do {
	case '+':
		p.ask(name)
	case '-':
		if err := p.store.Release(bg, p.grants[name]); err != nil {
			p.Errorf("%s: %v", word, err)
		}
		delete(p.grants, name)
	case '~':
		p.giveUp[name]()
	case '!':
		p.die(name)
	case '/':
		g := p.grants[name]
		g.Claims, g.TTL = []driver.Claim{driver.Shared("k")}, term
		if err := p.store.Downgrade(bg, g); err != nil {
			p.Errorf("%s: %v", word, err)
		}
		p.grants[name] = g
	}
	p.look()
	if got := strings.Join(slices.Sorted(maps.Keys(p.grants)), ","); do == '=' && got != name {
		p.Errorf("got %q, want %q", got, name)
	}
}

// TestPhases plays what M1 to M6 say about turns.
func TestPhases(t *testing.T) {
	for _, plot := range []string{
		// M1: what goes together.
		"+r1 +r2 +r3 =r1,r2,r3 +w =r1,r2,r3 -r1 -r2 =r3 -r3 =w -w =",
		"+p2a +p2b +p2c =p2a,p2b -p2a =p2b,p2c -p2b -p2c =",
		"+w +r1 +p2a =w -w =r1 -r1 =p2a -p2a =",
		"+p3a +r +w =p3a -p3a =r -r =w -w =",
		// M2: nobody gets in past one who waits.
		"+r1 +w +r2 +r3 =r1 -r1 =w -w =r2,r3 -r2 -r3 =",
		"+p2a +w +p2b =p2a -p2a =w -w =p2b -p2b =",
		"+r1 +p2a +r2 =r1 -r1 =p2a -p2a =r2 -r2 =",
		// M3: all readers after a writer, wherever they stand; the line after them.
		"+w1 +w2 +r1 +w3 +r2 =w1 -w1 =r1,r2 +r3 -r1 =r2 -r2 =w2 -w2 =r3 -r3 =w3 -w3 =",
		"+w1 +p2a +p2b +p2c +r =w1 -w1 =r -r =p2a,p2b -p2a =p2b,p2c -p2b -p2c =",
		"+p2a +p2b +r +w -p2a =p2b -p2b =r -r =w -w =",
		"+p2a +p2b +r +p2c -p2a =p2b -p2b =r -r =p2c -p2c =",
		"+p3a +r +p3b =p3a -p3a =r +p3c -r =p3b,p3c -p3b -p3c =",
		"+r1 +p2a +r2 +p2b -r1 =p2a -p2a =r2 -r2 =p2b -p2b =",
		"+p3a +r +p3b +p3c ~r =p3a,p3b,p3c -p3a -p3b -p3c =",
		"+r1 +w +r2 !r1 =w -w =r2 -r2 =",
		"+w1 +w2 +r !w1 =r -r =w2 -w2 =",
		"+p1a +w +r !p1a =r -r =w -w =",
		// A7: who gives up is out of the way.
		"+r1 +w +r2 +r3 =r1 ~w =r1,r2,r3 -r1 -r2 -r3 =",
		"+p3a +w +p3b +p3c ~w =p3a,p3b,p3c -p3a -p3b -p3c =",
		"+w1 +w2 +w3 ~w2 -w1 =w3 -w3 =",
		"+w1 +r1 +r2 ~r1 -w1 =r2 -r2 =",
		"+r1 +w1 +w2 +r2 ~w1 =r1 ~w2 =r1,r2 -r1 -r2 =",
		// M4: each ends alone.
		"+r1 +r2 +r3 +w !r2 =r1,r3 -r1 !r3 =w -w =",
		"+p2a +p2b +p2c !p2a =p2b,p2c -p2b -p2c =",
		// M5: readers come in, the line waits on.
		"+w1 +w2 +r1 +r2 =w1 /w1 =r1,r2,w1 +r3 =r1,r2,w1 -r1 -r2 -w1 =w2 -w2 =r3 -r3 =",
		"+w1 /w1 +r1 =r1,w1 /w1 -w1 =r1 -r1 =",
		"+w1 +p2a /w1 =w1 !w1 =p2a -p2a =",
		// M6: each by its own number, and none overtaken.
		"+p3a +p3b +p2c +p3d =p3a,p3b -p3a =p2c,p3b,p3d -p2c -p3b -p3d =",
		"+p3a +p3b +p3c +p1d +p3e -p3a -p3b =p3c -p3c =p1d,p3e -p1d -p3e =",
		"+p1a +p2b =p1a,p2b -p1a +p1c =p2b -p2b =p1c -p1c =",
	} {
		t.Run(plot, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &play{
					T: t, store: New(), waits: map[string]chan outcome{},
					giveUp: map[string]context.CancelFunc{}, grants: map[string]driver.Grant{},
				}
				for _, word := range strings.Fields(plot) {
					p.step(word)
					if t.Failed() {
						t.Fatalf("at %s of %s", word, plot)
					}
				}
				for _, giveUp := range p.giveUp {
					giveUp()
				}
				if sorted := slices.Sorted(slices.Values(p.tokens)); len(slices.Compact(sorted)) != len(p.tokens) {
					t.Errorf("a token twice: %d", p.tokens)
				}
				time.Sleep(term)
				p.store.mem.sweepAll()
				checkEmpty(t, p.store)
			})
		})
	}
}

// sweepAll is what the next keys to come would set off.
func (m *memory) sweepAll() {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.sweepAt = 0
		s.sweep(time.Now())
		s.mu.Unlock()
	}
}
