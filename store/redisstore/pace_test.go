package redisstore

import (
	"sync"
	"testing"
	"time"
)

// TestPacer: what the waiters want is what they get, until it is more than the budget;
// then each gets the same part of it.
func TestPacer(t *testing.T) {
	var p pacer
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
	p.leave(one)
	for _, looks := range behind {
		p.leave(looks)
	}
	p.leave(head)
	if _, every := p.enter(foreignLook); every != foreignLook {
		t.Errorf("when the others have left, every %v", every)
	}
}

// TestPacerAtTheLimits: slow and concurrent waiters.
func TestPacerAtTheLimits(t *testing.T) {
	var p pacer
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
			p.leave(looks)
		})
	}
	all.Wait()
	if n := p.wanted.Load(); n != 1 {
		t.Errorf("%d looks are left over", n)
	}
}
