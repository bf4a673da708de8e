package inbox

import (
	"sync"
	"testing"
	"time"
)

// TestPacer: what the waiters want is what they get, until it is more than the budget;
// then each gets the same part of it.
func TestPacer(t *testing.T) {
	var p Pacer
	head, every := p.enter(headLook)
	if every != headLook {
		t.Errorf("the only waiter looks every %v", every)
	}
	var behind []int64
	for range 10_000 {
		looks, _ := p.enter(lineLook)
		behind = append(behind, looks)
	}
	one, every := p.enter(lineLook)
	if every < 9*time.Second || every > 11*time.Second { // 10 000 of them make 1000 looks a second
		t.Errorf("one of 10 000 looks every %v", every)
	}
	p.Leave(one)
	for _, looks := range behind {
		p.Leave(looks)
	}
	p.Leave(head)
	if _, every := p.enter(foreignLook); every != foreignLook {
		t.Errorf("when the others have left, every %v", every)
	}
}

// TestPacerAtTheLimits: slow and concurrent waiters.
func TestPacerAtTheLimits(t *testing.T) {
	var p Pacer
	if looks, every := p.enter(time.Hour); looks < 1 || every != time.Hour {
		t.Errorf("%d looks, every %v", looks, every)
	}
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			looks, every := p.enter(foreignLook)
			if every < foreignLook {
				t.Errorf("every %v", every)
			}
			p.Leave(looks)
		})
	}
	all.Wait()
	if n := p.wanted.Load(); n != 1 {
		t.Errorf("%d looks are left over", n)
	}
}

// TestSight: who looks how often.
func TestSight(t *testing.T) {
	for _, c := range []struct {
		sight Sight
		want  time.Duration
	}{
		{Sight{}, 0},
		{Sight{Head: true}, 0},
		{Sight{Foreign: true}, 0},
		{Sight{Foreign: true, Head: true}, foreignLook},
		{Sight{Untold: true, Head: true}, headLook},
		{Sight{Untold: true}, lineLook},
		{Sight{Foreign: true, Untold: true}, lineLook},
	} {
		c.sight.Since = time.Now()
		if got := c.sight.pace(); got != c.want {
			t.Errorf("%+v: every %v, want %v", c.sight, got, c.want)
		}
	}
	old := Sight{Untold: true, Head: true, Since: time.Now().Add(-time.Hour)}
	if got := old.pace(); got < 50*time.Second { // a lock that is held for an hour
		t.Errorf("every %v", got)
	}
}
