package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/store/redisstore"
)

// waitingOwner is who has the place to wait for key, or "".
func waitingOwner(t *testing.T, eng *core.Engine, key string) string {
	t.Helper()
	info, err := eng.Inspect(context.Background(), "%latest:"+key)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Holders) == 0 {
		return ""
	}
	return info.Holders[0].Owner
}

// debounced serves a rule that keeps the latest, and notes what ran.
type debounced struct {
	*queue
	eng    *core.Engine
	others []*core.Engine // other processes'
	locks  *lockasynq.Locks
	ran    func() []string
}

func debounce(t *testing.T, fail func(payload string) error, change ...func(*asynq.Config)) *debounced {
	t.Helper()
	return debounceOver(t, memstore.New(), fail, change...)
}

func debounceOver(t *testing.T, store core.Store, fail func(payload string) error, change ...func(*asynq.Config)) *debounced {
	t.Helper()
	d := &debounced{queue: newQueue(t), eng: engine(t, store)}
	d.start(fail, change...)
	return d
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var keepLatest = lockasynq.Serialize("index", "k").OnConflict(lockasynq.KeepLatest)

// start serves the queue, on every further engine as well.
func (d *debounced) start(fail func(payload string) error, change ...func(*asynq.Config)) {
	t := d.t
	d.locks = locks(t, d.eng, keepLatest)
	var mu sync.Mutex
	var ran []string
	d.ran = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(ran)
	}
	work := handler(func(ctx context.Context, task *asynq.Task) error {
		if err := core.AssertHeld(ctx, "k"); err != nil {
			t.Error(err)
		}
		mu.Lock()
		ran = append(ran, string(task.Payload()))
		mu.Unlock()
		return fail(string(task.Payload()))
	})
	d.serve(d.locks.Middleware(work), change...)
	for _, eng := range d.others {
		d.serve(locks(t, eng, keepLatest).Middleware(work), change...)
	}
}

func never(string) error { return nil }

// enqueueBehind adds a task and waits until it has the place to wait.
func (d *debounced) enqueueBehind(payload string) (id string) {
	d.t.Helper()
	before := waitingOwner(d.t, d.eng, "k")
	id = d.enqueue("index", payload)
	await(d.t, "the newer task to take the place", func() bool {
		owner := waitingOwner(d.t, d.eng, "k")
		return owner != "" && owner != before
	})
	return id
}

func TestKeepLatestRunsTheNewestOfThoseThatWait(t *testing.T) {
	t.Parallel()
	d := debounce(t, never)
	lease := hold(t, d.eng, "k")
	var ids []string
	for i := range 5 {
		ids = append(ids, d.enqueueBehind(fmt.Sprint(i)))
	}
	// The others notice while the key is still held, and give their workers back.
	for _, id := range ids[:4] {
		if info := d.become(id, asynq.TaskStateCompleted); info.LastErr != "" || info.Retried != 0 {
			t.Errorf("a superseded task has the error %q and %d retries used up", info.LastErr, info.Retried)
		}
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.become(ids[4], asynq.TaskStateCompleted)
	if ran := d.ran(); !slices.Equal(ran, []string{"4"}) {
		t.Errorf("%q ran, want the newest alone", ran)
	}
	if n := d.locks.Skipped()["index"]; n != 4 {
		t.Errorf("%d counted as skipped, want 4", n)
	}
	if owner := waitingOwner(t, d.eng, "k"); owner != "" {
		t.Errorf("the place to wait is still taken by %s", owner)
	}
}

// One that has the key before it has noticed is superseded all the same.
func TestKeepLatestSettlesItWhenTheKeyIsFree(t *testing.T) {
	t.Parallel()
	d := debounce(t, never)
	lease := hold(t, d.eng, "k")
	older := d.enqueueBehind("older")
	newer := d.enqueueBehind("newer")
	if err := lease.Release(context.Background()); err != nil { // well before a renewal
		t.Fatal(err)
	}
	d.become(older, asynq.TaskStateCompleted)
	d.become(newer, asynq.TaskStateCompleted)
	if ran := d.ran(); !slices.Equal(ran, []string{"newer"}) {
		t.Errorf("%q ran, want the newest alone", ran)
	}
}

// Two processes that share nothing but a Redis.
func TestKeepLatestInAFleet(t *testing.T) {
	t.Parallel()
	d := &debounced{queue: newQueue(t)}
	onRedis := func() *core.Engine {
		store, err := redisstore.New(d.redis.Client(), redisstore.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		return engine(t, store)
	}
	d.eng, d.others = onRedis(), []*core.Engine{onRedis()}
	d.start(never)
	lease := hold(t, d.eng, "k")
	var ids []string
	for i := range 6 {
		ids = append(ids, d.enqueueBehind(fmt.Sprint(i)))
	}
	for _, id := range ids[:5] {
		d.become(id, asynq.TaskStateCompleted) // dropped
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.become(ids[5], asynq.TaskStateCompleted)
	if ran := d.ran(); !slices.Equal(ran, []string{"5"}) {
		t.Errorf("%q ran, want the newest alone", ran)
	}
}

func TestKeepLatestOnAFreeKeyRuns(t *testing.T) {
	t.Parallel()
	d := debounce(t, never)
	for i := range 3 {
		d.become(d.enqueue("index", fmt.Sprint(i)), asynq.TaskStateCompleted)
	}
	if ran := d.ran(); !slices.Equal(ran, []string{"0", "1", "2"}) {
		t.Errorf("%q ran", ran)
	}
}

// A task that comes again after a failure is older than the one that waits.
func TestKeepLatestRetryDoesNotSupersede(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	var d *debounced
	var lease *core.Lease
	first := true
	d = debounce(t, func(payload string) error {
		if payload == "old" && first {
			first = false
			return failed
		}
		return nil
	}, func(cfg *asynq.Config) {
		cfg.RetryDelayFunc = lockasynq.RetryDelay(atOnce)
		cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) {
			lease = hold(t, d.eng, "k") // before it can come again
			d.enqueue("index", "new")
			await(t, "the newer task to wait", func() bool { return waitingOwner(t, d.eng, "k") != "" })
		})
	})
	old := d.enqueue("index", "old")
	d.become(old, asynq.TaskStateCompleted) // dropped
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	await(t, "the newer task to run", func() bool { return len(d.ran()) == 2 })
	if ran := d.ran(); !slices.Equal(ran, []string{"old", "new"}) {
		t.Errorf("%q ran, want old once and then new", ran)
	}
}

func TestKeepLatestIsCheckedAtStart(t *testing.T) {
	eng := engine(t, nil)
	for name, r := range map[string]lockasynq.Rule{
		"once":         lockasynq.Once("t", "k:{payload.id}"),
		"several keys": lockasynq.Serialize("t", "k:{payload.ids[*]}"),
	} {
		_, err := lockasynq.New(eng, r.OnConflict(lockasynq.KeepLatest))
		if !errors.Is(err, core.ErrInvalidOption) || !strings.Contains(err.Error(), "keep latest") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := lockasynq.New(engine(t, struct{ core.Store }{memstore.New()}), lockasynq.Serialize("t", "k").OnConflict(lockasynq.KeepLatest))
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store that can't be inspected: %v", err)
	}
}

// The place to wait is a lease, and can be lost without any newer task: in an
// outage, by a flushed store, to an operator. Then nothing supersedes the task.
func TestKeepLatestDropsNothingWithoutANewerTask(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(*testing.T, *core.Engine, *locktest.Store){
		"lost":   func(_ *testing.T, _ *core.Engine, s *locktest.Store) { s.Lose("%latest:k") },
		"forced": func(t *testing.T, eng *core.Engine, _ *locktest.Store) { force(t, eng, "%latest:k") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := locktest.NewStore(memstore.New())
			d := debounceOver(t, store, never)
			lease := hold(t, d.eng, "k")
			id := d.enqueueBehind("only")
			before := waitingOwner(t, d.eng, "k")
			take(t, d.eng, store)
			await(t, "the task to take its place again", func() bool {
				if info := d.info(id); info.State != asynq.TaskStateActive {
					t.Fatalf("the only task that waits is %v", info.State)
				}
				owner := waitingOwner(t, d.eng, "k")
				return owner != "" && owner != before
			})
			if err := lease.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
			d.become(id, asynq.TaskStateCompleted)
			if ran := d.ran(); !slices.Equal(ran, []string{"only"}) || d.locks.Skipped()["index"] != 0 {
				t.Errorf("%q ran and %d were skipped, want the task to have run", ran, d.locks.Skipped()["index"])
			}
		})
	}
}

// A task that is superseded is no reason to call an operator; a place that somebody
// else takes away is.
func TestKeepLatestSupersedesWithoutAWarning(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	var log syncBuffer
	d := &debounced{queue: newQueue(t), eng: engine(t, store, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))}
	d.start(never)
	lease := hold(t, d.eng, "k")
	for i, older := range []string{d.enqueueBehind("0"), d.enqueueBehind("1"), d.enqueueBehind("2")} {
		if i < 2 {
			d.become(older, asynq.TaskStateCompleted)
		}
	}
	if got := log.String(); got != "" {
		t.Errorf("logged %s", got)
	}
	force(t, d.eng, "%latest:k")
	await(t, "the task to notice", func() bool { return strings.Contains(log.String(), "keyturn: lease lost") })
	if got := log.String(); strings.Count(got, "level=WARN") != 2 || !strings.Contains(got, "taken away by force") {
		t.Errorf("logged %s", got)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func force(t *testing.T, eng *core.Engine, key string) {
	t.Helper()
	if _, err := eng.ForceRelease(context.Background(), key, "test: an operator's doing"); err != nil {
		t.Fatal(err)
	}
}

// Nor is a task that waits superseded by the end of the engine.
func TestKeepLatestTaskOutlivesTheEngine(t *testing.T) {
	t.Parallel()
	// Two processes: the one that holds the key and the one that stops.
	store := memstore.New()
	holder := engine(t, store)
	eng, err := core.New(store.Peer())
	if err != nil {
		t.Fatal(err)
	}
	q := newQueue(t)
	hold(t, holder, "k")
	q.serve(locks(t, eng, keepLatest).Middleware(handler(func(context.Context, *asynq.Task) error { return errors.New("ran") })), noForwarding)
	id := q.enqueue("index", "only")
	await(t, "the task to wait", func() bool { return waitingOwner(t, holder, "k") != "" })
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := eng.Close(ended); err == nil {
		t.Fatal("the engine closed as if nobody had waited")
	}
	if info := q.left(id); info.State != asynq.TaskStateRetry || info.Retried != 0 {
		t.Errorf("the task is %v with %d retries used up (%s), want it rescheduled", info.State, info.Retried, info.LastErr)
	}
}

// A task that comes again after an outage is older than the one that waits, too.
func TestKeepLatestRescheduledDoesNotSupersede(t *testing.T) {
	t.Parallel()
	store := locktest.NewStore(memstore.New())
	d := debounceOver(t, store, never, noForwarding)
	lease := hold(t, d.eng, "k")
	store.Refuse()
	old := d.enqueue("index", "old")
	await(t, "the old task to be rescheduled", func() bool { return d.info(old).State == asynq.TaskStateRetry })
	store.Heal()
	newer := d.enqueueBehind("new")
	if err := d.inspector.RunTask("default", old); err != nil { // as a forwarder would, later
		t.Fatal(err)
	}
	d.become(old, asynq.TaskStateCompleted) // dropped
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.become(newer, asynq.TaskStateCompleted)
	if ran := d.ran(); !slices.Equal(ran, []string{"new"}) {
		t.Errorf("%q ran, want the newer task alone", ran)
	}
}

// lateForce has the first one that takes a lease by force do so late.
type lateForce struct {
	*memstore.Store
	first   atomic.Bool
	reached chan struct{}
	goOn    chan struct{}
}

func (s *lateForce) ForceRelease(ctx context.Context, key, reason string) ([]core.Holder, error) {
	if !s.first.Swap(true) {
		close(s.reached)
		<-s.goOn
	}
	return s.Store.ForceRelease(ctx, key, reason)
}

// Two tasks of a burst find the place taken, and the older one of them is the
// second to take it: it puts the newer one out.
func TestKeepLatestPutOutByAnOlderTaskComesBack(t *testing.T) {
	t.Parallel()
	store := &lateForce{Store: memstore.New(), reached: make(chan struct{}), goOn: make(chan struct{})}
	d := debounceOver(t, store, never)
	lease := hold(t, d.eng, "k")
	ids := []string{d.enqueueBehind("first"), d.enqueue("index", "slow")}
	receive(t, "the slow task to see that the place is taken", store.reached)
	newest := d.enqueueBehind("newest")
	before := waitingOwner(t, d.eng, "k")
	close(store.goOn)
	await(t, "the slow task to take the place", func() bool { return waitingOwner(t, d.eng, "k") != before })
	for _, id := range ids {
		d.become(id, asynq.TaskStateCompleted) // dropped
	}
	if info := d.info(newest); info.State != asynq.TaskStateActive {
		t.Errorf("the newest task is %v", info.State)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.become(newest, asynq.TaskStateCompleted)
	if ran := d.ran(); !slices.Equal(ran, []string{"newest"}) {
		t.Errorf("%q ran, want the newest alone", ran)
	}
}
