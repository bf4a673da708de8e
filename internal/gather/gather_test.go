package gather

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/internal/checktest"
)

var check, require = checktest.That, checktest.Require

const (
	batchSize = 128
	perTrip   = 200 * time.Microsecond
)

type request struct{ done chan struct{} }

// answering plays the server: round trips end when the test says so.
type answering struct {
	Gather[*request]
	tasks sync.WaitGroup

	mu      sync.Mutex
	batches []int           // sizes, in order
	ends    []chan struct{} // closed to end that round trip
	calm    bool            // round trips end at once
}

func newAnswering() *answering {
	p := &answering{}
	p.Go, p.Most, p.Alone, p.Trips, p.PerTrip = p.tasks.Go, batchSize, 1, 2, perTrip
	p.Send = func(batch []*request) {
		end := make(chan struct{})
		p.mu.Lock()
		p.batches, p.ends = append(p.batches, len(batch)), append(p.ends, end)
		calm := p.calm
		p.mu.Unlock()
		if !calm {
			<-end
		}
		for _, r := range batch {
			close(r.done)
		}
	}
	return p
}

// ask sends n requests, each of a caller of its own.
func (p *answering) ask(n int) (all []*request) {
	for range n {
		r := &request{make(chan struct{})}
		all = append(all, r)
		p.Add(r)
	}
	return all
}

// occupy sends a request in each of the batches that may be under way if the server is near.
func (p *answering) occupy(t *testing.T) (all []*request) {
	t.Helper()
	all = p.ask(1)
	p.sent(t, 1)
	all = append(all, p.ask(1)...)
	p.sent(t, 1, 1)
	return all
}

func (p *answering) answer(batch int) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ends[batch])
}

// answerAll ends all round trips, also those to come.
func (p *answering) answerAll() {
	p.mu.Lock()
	p.calm = true
	for _, end := range p.ends {
		select {
		case <-end:
		default:
			close(end)
		}
	}
	p.mu.Unlock()
	p.tasks.Wait()
}

func (p *answering) sent(t *testing.T, want ...int) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	require(t, slices.Equal(p.batches, want), "batches of %v were sent, want %v", p.batches, want)
}

func back(all []*request) (n int) {
	for _, one := range all {
		select {
		case <-one.done:
			n++
		default:
		}
	}
	return n
}

// An idle server adds no wait; a busy one gets together what came meanwhile, in batches of one size.
func TestRequestsGatherWhileOthersAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		first := p.occupy(t)
		second := p.ask(7)
		p.sent(t, 1, 1)
		p.answer(0)
		p.sent(t, 1, 1, 4)
		check(t, back(first) == 1 && back(second) == 0, "a request is back with another's batch")
		p.answer(1)
		p.sent(t, 1, 1, 4, 3)
		p.answer(2)
		p.answer(3)
		p.tasks.Wait()
		check(t, back(first) == 2 && back(second) == 7, "%d of 2 and %d of 7 are back", back(first), back(second))
	})
}

// If the batches under way are not of one size, the next ones make up for it.
func TestBatchesBecomeOfOneSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.occupy(t)
		p.ask(9)
		p.answer(0)
		p.sent(t, 1, 1, 5)
		p.ask(6) // ten wait beside the five
		p.answer(1)
		p.sent(t, 1, 1, 5, 8)
		p.answer(2) // two wait beside the eight, and its callers ask again
		p.sent(t, 1, 1, 5, 8, 2)
		p.ask(5)
		p.answer(3)
		p.sent(t, 1, 1, 5, 8, 2, 4) // five wait beside the two
		p.answer(4)
		p.sent(t, 1, 1, 5, 8, 2, 4, 1)
	})
}

// A server that is far away gets a batch although others are under way: one for each perTrip of the fastest round trip.
func TestFarServersGetMoreBatchesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.ask(1)
		p.sent(t, 1)
		time.Sleep(2 * perTrip)
		p.answer(0)
		want := []int{1}
		for range 4 {
			p.ask(1)
			want = append(want, 1)
			p.sent(t, want...)
		}
		p.ask(4)
		p.sent(t, want...) // four are out
		p.answer(1)        // it took no time: the server is near
		p.answer(2)
		p.sent(t, want...) // two are out
		p.answer(3)
		want = append(want, 3) // and one waits
		p.sent(t, want...)
		p.answer(4)
		want = append(want, 1)
		p.sent(t, want...)
		p.ask(2)
		p.sent(t, want...)
		time.Sleep(nearFor + time.Millisecond) // for so long the fast one counts
		want = append(want, 2)                 // because the others are overdue
		p.sent(t, want...)
		p.answer(5)
		synctest.Wait()
		for range mostTrips - 2 { // beside a batch of one and one of two
			p.ask(1)
			want = append(want, 1)
			p.sent(t, want...)
		}
		p.ask(1)
		p.sent(t, want...)
	})
}

func TestBatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.occupy(t)
		all := p.ask(2*batchSize + 3)
		p.answer(0)
		p.sent(t, 1, 1, batchSize)
		p.answer(1)
		p.sent(t, 1, 1, batchSize, batchSize)
		p.answer(2)
		p.sent(t, 1, 1, batchSize, batchSize, 3)
		p.answerAll()
		p.tasks.Wait()
		check(t, back(all) == len(all), "%d of %d are back", back(all), len(all))
	})
}

// A connection that hangs does not keep the others' requests waiting; nor
// does a server that hangs get more and more of them at once.
func TestHangingRoundTripsDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.occupy(t)
		late := p.ask(5)
		time.Sleep(overdue - time.Millisecond)
		p.sent(t, 1, 1)
		time.Sleep(2 * time.Millisecond)
		p.sent(t, 1, 1, 5)
		p.answer(2)
		synctest.Wait()
		check(t, back(late) == 5, "%d of 5 are back", back(late))
		for range 2 * mostRoundTrips { // now all hang
			p.ask(1)
			time.Sleep(2 * overdue)
		}
		synctest.Wait()
		n := len(p.batches) - 1
		check(t, n == mostRoundTrips, "%d round trips are out, want %d", n, mostRoundTrips)
		p.answerAll()
		check(t, p.underWay == 0 && len(p.waiting) == 0 && p.out == 0 && p.all.Load() == 0, "%d round trips are left, %d requests wait, %d are out, %d are counted", p.underWay, len(p.waiting), p.out, p.all.Load())
	})
}

// enter has callers send their own requests until none may, and returns how many do.
func (p *answering) enter() (n int) {
	for p.Enter() {
		n++
	}
	return n
}

// leave gives n of them their answers.
func (p *answering) leave(n int) {
	for range n {
		p.Leave()
	}
}

// Callers send their own requests until there are many, and again when there have been few for a while.
func TestFewAreSentByTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.Alone = 8
		mayGo := func(want int) {
			t.Helper()
			n := p.enter()
			check(t, n == want, "%d may go, want %d", n, want)
		}
		trip := func(batch int) {
			synctest.Wait()
			time.Sleep(fewFor + time.Microsecond)
			p.answer(batch)
			synctest.Wait()
		}
		p.ask(1) // counts as well, in its batch
		p.sent(t, 1)
		mayGo(7) // with one more there are many
		p.ask(1)
		p.leave(7)
		mayGo(0)
		trip(0)
		mayGo(0) // there were many in that time
		p.ask(1)
		trip(1)
		mayGo(7) // beside the last
		p.leave(7)
	})
}

// While many gather, a caller that is alone sends its own request.
func TestOneIsSentByItsCaller(t *testing.T) {
	p := newAnswering()
	for range 3 {
		n := p.enter()
		check(t, n == 1, "%d may go, want 1", n)
		p.leave(1)
	}
}
