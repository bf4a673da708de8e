package inbox

import (
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/checktest"
)

var check = checktest.That

// TestPollers: what the waiters want is what they get, until it is more than the budget;
// then each gets the same part of it.
func TestPollers(t *testing.T) {
	var p Pollers
	head, every := p.enter(headPoll)
	check(t, every == headPoll, "the only waiter polls every %v", every)
	var behind []int64
	for range 10_000 {
		rate, _ := p.enter(linePoll)
		behind = append(behind, rate)
	}
	one, every := p.enter(linePoll)
	if every < 9*time.Second || every > 11*time.Second { // 10 000 of them make 1000 polls a second
		t.Errorf("one of 10 000 polls every %v", every)
	}
	p.Leave(one)
	for _, rate := range behind {
		p.Leave(rate)
	}
	p.Leave(head)
	_, every = p.enter(foreignPoll)
	check(t, every == foreignPoll, "when the others have left, every %v", every)
}

// TestPollersAtTheLimits: slow and concurrent waiters.
func TestPollersAtTheLimits(t *testing.T) {
	var p Pollers
	rate, every := p.enter(time.Hour)
	check(t, rate >= 1 && every == time.Hour, "%d polls per second, every %v", rate, every)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			rate, every := p.enter(foreignPoll)
			check(t, every >= foreignPoll, "every %v", every)
			p.Leave(rate)
		})
	}
	all.Wait()
	n := p.wanted.Load()
	check(t, n == 1, "%d polls per second are left over", n)
}

// TestHowOftenAWaiterPolls: who polls how often.
func TestHowOftenAWaiterPolls(t *testing.T) {
	for _, c := range []struct {
		view View
		want time.Duration
	}{
		{View{}, 0},
		{View{Head: true}, 0},
		{View{Foreign: true}, 0},
		{View{Foreign: true, Head: true}, foreignPoll},
		{View{NoMessage: true, Head: true}, headPoll},
		{View{NoMessage: true}, linePoll},
		{View{Foreign: true, NoMessage: true}, linePoll},
	} {
		c.view.Since = time.Now()
		got := c.view.pause()
		check(t, got == c.want, "%+v: every %v, want %v", c.view, got, c.want)
	}
	old := View{NoMessage: true, Head: true, Since: time.Now().Add(-time.Hour)}
	if got := old.pause(); got < 50*time.Second { // a lock that is held for an hour
		t.Errorf("every %v", got)
	}
}
