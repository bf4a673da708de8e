package gather

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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
	p.Go, p.Most, p.Alone, p.PerTrip = p.tasks.Go, batchSize, 1, perTrip
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
	if !slices.Equal(p.batches, want) {
		t.Fatalf("batches of %v were sent, want %v", p.batches, want)
	}
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

// An idle store adds no wait; a busy one sends together what came meanwhile.
func TestRequestsGatherWhileOthersAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		first := p.ask(1)
		p.sent(t, 1)
		second := p.ask(7)
		p.sent(t, 1)
		p.answer(0)
		p.sent(t, 1, 7)
		if back(first) != 1 || back(second) != 0 {
			t.Error("a request is back with another's batch")
		}
		p.answer(1)
		p.tasks.Wait()
		if back(second) != 7 {
			t.Errorf("%d of 7 are back", back(second))
		}
	})
}

// A server that is far away gets a batch although others are under way: one for each perTrip of
// the fastest round trip.
func TestFarServersGetMoreBatchesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.ask(1)
		p.sent(t, 1)
		time.Sleep(2 * perTrip)
		p.answer(0)
		want := []int{1}
		for range 3 {
			p.ask(1)
			want = append(want, 1)
			p.sent(t, want...)
		}
		p.ask(4)
		p.sent(t, want...) // three are out
		p.answer(1)        // it took no time: the server is near
		p.answer(2)
		p.sent(t, want...) // one is out
		p.answer(3)
		want = append(want, 4)
		p.sent(t, want...)
		p.ask(2)
		p.sent(t, want...)
		time.Sleep(nearFor + time.Millisecond) // for so long the fast one counts
		want = append(want, 2)                 // because the batch of four is overdue
		p.sent(t, want...)
		p.answer(4)
		synctest.Wait()
		for range mostTrips - 1 { // beside the batch of two
			p.ask(1)
			want = append(want, 1)
			p.sent(t, want...)
		}
		p.ask(1)
		p.sent(t, want...)
	})
}

// Callers whose requests were answered together send their next ones together, too. With one
// processor it is known who runs when, so all batches except the first few have a request of each.
func TestAnsweredCallersJoinTheNextBatch(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const callers, rounds = 8, 200
	p := newAnswering()
	p.calm = true
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range rounds {
				<-p.ask(1)[0].done
			}
		})
	}
	all.Wait()
	p.tasks.Wait()
	if n := len(p.batches); n > rounds*3/2 {
		t.Errorf("%d requests of %d callers left in %d batches", callers*rounds, callers, n)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.ask(1)
		p.sent(t, 1)
		all := p.ask(batchSize + 3)
		p.answer(0)
		p.sent(t, 1, batchSize)
		p.answer(1)
		p.sent(t, 1, batchSize, 3)
		p.answer(2)
		p.tasks.Wait()
		if back(all) != batchSize+3 {
			t.Errorf("%d of %d are back", back(all), batchSize+3)
		}
	})
}

// A connection that hangs does not keep the others' requests waiting; nor
// does a server that hangs get more and more of them at once.
func TestHangingRoundTripsDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		p.ask(1)
		p.sent(t, 1)
		late := p.ask(5)
		time.Sleep(overdue - time.Millisecond)
		p.sent(t, 1)
		time.Sleep(2 * time.Millisecond)
		p.sent(t, 1, 5)
		p.answer(1)
		synctest.Wait()
		if back(late) != 5 {
			t.Errorf("%d of 5 are back", back(late))
		}
		for range 2 * mostRoundTrips { // now all hang
			p.ask(1)
			time.Sleep(2 * overdue)
		}
		synctest.Wait()
		if n := len(p.batches) - 1; n != mostRoundTrips {
			t.Errorf("%d round trips are out, want %d", n, mostRoundTrips)
		}
		p.answerAll()
		if n := p.underWay.Load(); n != 0 || len(p.waiting) != 0 {
			t.Errorf("%d round trips and %d requests are left", n, len(p.waiting))
		}
	})
}

// While no other request is under way, a caller sends its own. With Alone, a few of them do.
func TestOneIsSentByItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAnswering()
		defer p.answerAll()
		if !p.Enter() {
			t.Error("the first may not go")
		}
		if p.Enter() {
			t.Error("one may go beside another")
		}
		p.Leave()
		p.ask(1)
		p.sent(t, 1)
		if p.Enter() {
			t.Error("one may go beside a batch")
		}
		p.answer(0)
		synctest.Wait()
		if !p.Enter() {
			t.Error("none may go although the batch is back")
		}
		p.Alone = 2
		if !p.Enter() || p.Enter() {
			t.Error("not two of three may go")
		}
		p.Leave()
		if !p.Enter() {
			t.Error("none may go although one has left")
		}
	})
}
